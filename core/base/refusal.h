// What a real library refuses, told in our words.
#pragma once

#include <string>
#include <utility>

#include "core/base/error.h"

namespace shardscope {

/// An input that PyTorch, transformers, accelerate or DeepSpeed would refuse as well.
class Refusal : public Error {
 public:
  /// `exception` is the class that the library raises: "ValueError".
  /// `line` is that of the value at fault; 0: not known.
  Refusal(std::string exception, Parts parts, int line = 0)
      : Error(std::move(parts)), exception_(std::move(exception)), line_(line) {}
  Refusal(std::string exception, std::string what)
      : Refusal(std::move(exception), Parts{{}, std::move(what), {}}) {}

  const std::string& exception() const { return exception_; }
  int line() const { return line_; }

 private:
  std::string exception_;
  int line_ = 0;
};

}  // namespace shardscope
