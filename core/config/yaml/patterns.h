// The patterns of YAML 1.1 scalars, by hand: std::regex recurses once per character.
// Source: PyYAML 6.0.3 resolver.py and constructor.py.
#pragma once

#include <string_view>

namespace shardscope::yaml {

bool is_bool(std::string_view text);
bool is_null(std::string_view text);
bool is_integer(std::string_view text);
bool is_float(std::string_view text);
bool is_timestamp(std::string_view text);

/// A date, or a date and a time, taken apart; empty parts are absent.
struct Timestamp {
  std::string_view year, month, day, hour, minute, second, fraction, zone, zone_hour, zone_minute;
};
/// The wider pattern of the constructor ("2024-1-2" is a date under !!timestamp).
bool match_timestamp(std::string_view text, Timestamp& parts);

}  // namespace shardscope::yaml
