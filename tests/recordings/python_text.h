// Text as Python shows it: recordings sort their rows by it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace shardscope::recordings {

/// repr() of None, an integer, a string or a list (shown as a tuple), str() of a string at the top.
std::string python_text(const nlohmann::ordered_json& value, bool is_inside = false);

/// Sorts an array of rows by python_text of their first `key_columns` values: of the value itself
/// for one, of the tuple of them for more.
void sort_rows(nlohmann::ordered_json& rows, std::size_t key_columns);

}  // namespace shardscope::recordings
