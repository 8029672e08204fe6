// Strong types for a processor's clock and power. Their text is read and written with that of the
// other quantities, in core/base/quantities.cpp.
#pragma once

#include <compare>
#include <string>
#include <string_view>

namespace shardscope {

/// Cycles per second.
struct Frequency {
  double hertz = 0;
  constexpr auto operator<=>(const Frequency&) const = default;
};

/// Joules per second.
struct Power {
  double watts = 0;
  constexpr auto operator<=>(const Power&) const = default;
};

/// "1980 MHz", "1.755 GHz" to a frequency; errors as parse_bytes.
Frequency parse_frequency(std::string_view text, std::string_view where);
/// "700 W", "1.2 kW" to a power; same errors.
Power parse_power(std::string_view text, std::string_view where);

// Shortest text that the parsers above read back to the same value.
std::string exact_text(Frequency frequency);
std::string exact_text(Power power);

}  // namespace shardscope
