// What one of the real libraries would raise, as an error of ours.
#pragma once

#include <string>
#include <utility>

#include "core/error.h"

namespace shardscope {

/// An error that the real library raises too, with the class of its Python exception.
class Raised : public Error {
 public:
  /// `type` is "ValueError", "KeyError"...
  /// `line` is that of the value at fault; 0: not known.
  Raised(std::string type, Parts parts, int line = 0)
      : Error(std::move(parts)), type_(std::move(type)), line_(line) {}
  Raised(std::string type, std::string what)
      : Raised(std::move(type), Parts{{}, std::move(what), {}}) {}

  const std::string& type() const { return type_; }
  int line() const { return line_; }

 private:
  std::string type_;
  int line_ = 0;
};

}  // namespace shardscope
