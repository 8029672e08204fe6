// How Python writes its values: repr of strings and floats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardscope {

/// repr(float): the shortest digits that read back to the same value, "1e-05", "100000000.0".
std::string python_float(double value);
/// repr(str): 'text', with double quotes where it holds a single quote and no double one.
std::string python_quoted(std::string_view text);
/// str.isprintable of one character, by the ranges that occur in practice: control and format
/// characters, separators other than the space, private use and surrogates are not.
bool python_printable(std::uint32_t code_point);

/// str.lower and str.upper of ASCII letters.
std::string lower_of(std::string_view text);
std::string upper_of(std::string_view text);
/// str.strip() of ASCII white space.
std::string_view stripped(std::string_view text);

}  // namespace shardscope
