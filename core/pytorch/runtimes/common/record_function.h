// torch.profiler.record_function: a name in profiles, and an operator at both ends.
#pragma once

#include "core/pytorch/engine/session.h"

namespace shardscope::eager {

/// `with torch.profiler.record_function(...)`: dispatch modes see it begin and end.
class RecordFunction {
 public:
  explicit RecordFunction(Session& s);
  RecordFunction(const RecordFunction&) = delete;
  RecordFunction& operator=(const RecordFunction&) = delete;
  ~RecordFunction();

 private:
  Session& s_;
};

}  // namespace shardscope::eager
