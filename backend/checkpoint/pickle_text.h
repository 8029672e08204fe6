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
std::string pickled_real(double value);
std::string pickled_boolean(bool value);
inline constexpr std::string_view pickled_none = "N";

// Containers of values that are pickled already, one behind the other.
/// `items`: key, value, key, value.
std::string pickled_dict(std::string_view items);
std::string pickled_list(std::string_view items);
std::string pickled_tuple(std::string_view items);
/// What calling `function` with the arguments of a tuple makes.
std::string pickled_call(std::string_view function, std::string_view arguments);

/// A whole pickle, of one value.
std::string whole_pickle(std::string_view value);

}  // namespace shardscope
