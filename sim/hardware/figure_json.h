// Parts of a hardware profile's file that all its sections share: quantities with units, names,
// and where a figure comes from.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock_and_power.h"
#include "core/base/nearest_word.h"
#include "core/format/json_reader.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {

/// Text that is not empty.
std::string read_text(const JsonValue& value);

/// `origin`, `source`, `date` and, where it stands there, `spread` of a figure or section.
Provenance read_provenance(const JsonValue& figure);

/// Throws Error for what no machine has, and no simulation can use: below 1 MB/s or 1 MFLOP/s (but
/// for 0), 1 MHz or 1 W, or so large that times become 0; latencies over an hour.
void check_range(const JsonValue& value, Bandwidth bandwidth);
void check_range(const JsonValue& value, FlopRate rate);
void check_range(const JsonValue& value, Duration time);
void check_range(const JsonValue& value, Frequency frequency);
void check_range(const JsonValue& value, Power power);
template <class Quantity>
void check_range(const JsonValue&, Quantity) {}

/// Text with a unit, through one of the parsers of core/base/quantities.h.
template <class Quantity>
Quantity read_quantity(const JsonValue& value,
                       Quantity (*parse)(std::string_view, std::string_view)) {
  if (value.is_number())
    throw value.error("a number without a unit: " + value.dump(),
                      "write text with a unit, for example \"80 GiB\", \"900 GB/s\" or \"5 us\"");
  const Quantity quantity = parse(value.string(), value.where());
  check_range(value, quantity);
  return quantity;
}

template <class Quantity>
Quantity read_positive(const JsonValue& value,
                       Quantity (*parse)(std::string_view, std::string_view)) {
  const Quantity quantity = read_quantity(value, parse);
  if (!(quantity > Quantity{})) throw value.error("must be greater than zero");
  return quantity;
}

/// The one of `choices` whose name stands in `value`; the complaint names the nearest.
template <class Enum>
Enum read_name(const JsonValue& value, std::initializer_list<Enum> choices, std::string_view what) {
  const std::string text = value.string();
  std::vector<std::string_view> names;
  std::string list;
  for (const Enum choice : choices) {
    if (name_of(choice) == text) return choice;
    names.push_back(name_of(choice));
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", name_of(choice));
  }
  const auto nearest = nearest_word(text, names);
  throw value.error(fmt::format("unknown {} \"{}\"", what, text),
                    nearest ? fmt::format("did you mean \"{}\"? known are {}", *nearest, list)
                            : "known are " + list);
}

/// `text` as a JSON string.
std::string json_text(std::string_view text);

/// "origin": ..., "source": ..., "date": ... of the figure `key`.
std::string provenance_json(const HardwareProfile& profile, std::string_view key);

}  // namespace shardscope
