// The host's annotations in an imported trace: what encloses what.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "traces/import/imported_trace.h"

namespace shardscope {

/// Annotations that the program or its framework made (user_annotation), without the profiler's
/// steps and the transport's own ("gloo:..."), by thread. Refers to the trace it was made of.
class Annotations {
 public:
  explicit Annotations(const ImportedTrace& trace);

  /// Those of the event's thread that enclose it, outermost first.
  std::vector<std::uint32_t> around(std::uint32_t event) const;

 private:
  const ImportedTrace* trace_;
  std::map<std::string, std::vector<std::uint32_t>> by_thread_;  ///< by start, falling duration
};

}  // namespace shardscope
