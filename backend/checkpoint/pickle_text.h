// Values as Python's pickles of protocol 2 have them, for what we write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/model/model.h"

namespace shardscope {

std::string pickled(std::int64_t value);
std::string pickled(std::string_view text);
/// A tuple of integers.
std::string pickled(const Shape& values);
/// A class or function: "torch", "Size".
std::string pickled_name(std::string_view module, std::string_view name);

}  // namespace shardscope
