// Pickles as Python writes them (protocol 4, without frames and memo), for tests of their readers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardscope::samples::pickled {

std::string text(std::string_view text);
/// As LONG1 with 8 bytes, however small.
std::string integer(std::int64_t value);
std::string list(const std::vector<std::string>& items);
std::string tuple(std::int64_t first, std::int64_t second);
std::string dict(const std::vector<std::pair<std::string, std::string>>& pairs);
/// PROTO 4, the value, STOP.
std::string whole(const std::string& value);

}  // namespace shardscope::samples::pickled
