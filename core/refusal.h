// What a real library refuses, told in our words.
#pragma once

#include <string>

#include "core/error.h"

namespace shardscope {

/// An input that PyTorch, transformers, accelerate or DeepSpeed would refuse as well.
class Refusal : public Error {
 public:
  /// `exception` is the class that the library raises: "ValueError".
  Refusal(std::string exception, Parts parts)
      : Error(std::move(parts)), exception_(std::move(exception)) {}

  const std::string& exception() const { return exception_; }

 private:
  std::string exception_;
};

}  // namespace shardscope
