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
  Raised(std::string type, Parts parts) : Error(std::move(parts)), type_(std::move(type)) {}
  Raised(std::string type, std::string what)
      : Raised(std::move(type), Parts{{}, std::move(what), {}}) {}

  const std::string& type() const { return type_; }

 private:
  std::string type_;
};

}  // namespace shardscope
