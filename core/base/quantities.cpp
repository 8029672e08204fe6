#include "core/base/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "core/base/clock_and_power.h"
#include "core/base/error.h"
#include "core/base/nearest_word.h"
#include "core/base/utf8.h"

namespace shardscope {
namespace {

__extension__ using Wide = __int128;

/// A unit and its size in the quantity's base (bytes, nanoseconds, bytes per second, operations per
/// second).
struct Unit {
  std::string_view name;
  double size = 0;
  bool spoken = true;  ///< used when writing; the others are only read
};

constexpr double kibi = 1024;

constexpr Unit byte_units[] = {
    {"B", 1},
    {"kB", 1e3},
    {"KiB", kibi},
    {"MB", 1e6},
    {"MiB", kibi* kibi},
    {"GB", 1e9},
    {"GiB", kibi* kibi* kibi},
    {"TB", 1e12},
    {"TiB", kibi* kibi* kibi* kibi},
    {"PB", 1e15},
    {"PiB", kibi* kibi* kibi* kibi* kibi},
    {"KB", 1e3, false},
};
constexpr Unit duration_units[] = {
    {"ns", 1},
    {"us", 1e3},
    {"ms", 1e6},
    {"s", 1e9},
    {"min", 60e9, false},
    {"h", 3600e9, false},
    {"\u00b5s", 1e3, false},
    {"\u03bcs", 1e3, false},
};
constexpr Unit bandwidth_units[] = {
    {"B/s", 1},
    {"kB/s", 1e3},
    {"MB/s", 1e6},
    {"GB/s", 1e9},
    {"TB/s", 1e12},
    {"PB/s", 1e15},
    {"KiB/s", kibi, false},
    {"MiB/s", kibi* kibi, false},
    {"GiB/s", kibi* kibi* kibi, false},
    {"TiB/s", kibi* kibi* kibi* kibi, false},
    {"bit/s", 0.125, false},
    {"kbit/s", 125, false},
    {"Mbit/s", 125e3, false},
    {"Gbit/s", 125e6, false},
    {"Tbit/s", 125e9, false},
};
constexpr Unit flop_rate_units[] = {
    {"FLOP/s", 1},           {"kFLOP/s", 1e3},        {"MFLOP/s", 1e6},  {"GFLOP/s", 1e9},
    {"TFLOP/s", 1e12},       {"PFLOP/s", 1e15},       {"EFLOP/s", 1e18}, {"GFLOPS", 1e9, false},
    {"TFLOPS", 1e12, false}, {"PFLOPS", 1e15, false},
};

constexpr Unit frequency_units[] = {{"Hz", 1}, {"kHz", 1e3}, {"MHz", 1e6}, {"GHz", 1e9}};
constexpr Unit power_units[] = {{"W", 1}, {"kW", 1e3}, {"MW", 1e6}};

/// What a parser reads, for its messages.
struct Grammar {
  std::span<const Unit> units;
  std::string_view example;
  std::string_view whole;  ///< the smallest part, of which there are no fractions
};

constexpr Grammar bytes_grammar{byte_units, "80 GiB", "byte"};
constexpr Grammar duration_grammar{duration_units, "5 us", "nanosecond"};
constexpr Grammar bandwidth_grammar{bandwidth_units, "900 GB/s", ""};
constexpr Grammar flop_rate_grammar{flop_rate_units, "150 GFLOP/s", ""};
constexpr Grammar frequency_grammar{frequency_units, "1980 MHz", ""};
constexpr Grammar power_grammar{power_units, "700 W", ""};

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_blank(char c) { return c == ' ' || c == '\t'; }

/// "1.5e3 GiB" as digits 15, exponent 2 (so digits * 10^exponent), and "GiB".
struct Written {
  std::int64_t digits = 0;
  int exponent = 0;
  std::string_view number;
  const Unit* unit = nullptr;
};

class QuantityReader {
 public:
  QuantityReader(std::string_view text, std::string_view where, const Grammar& grammar)
      : text_(text), where_(where), grammar_(grammar) {}

  Written read() const {
    std::string_view rest = trimmed(text_);
    if (rest.starts_with('-')) fail("is negative", example());
    Written written;
    written.number = take_number(rest, written);
    rest = trimmed(rest);
    if (rest.empty()) fail("has no unit", fmt::format("add a unit, {}", example()));
    const auto unit = std::find_if(grammar_.units.begin(), grammar_.units.end(),
                                   [&](const Unit& candidate) { return candidate.name == rest; });
    if (unit == grammar_.units.end())
      fail(fmt::format("has the unknown unit \"{}\"", shown(rest, 20)), known_units(rest));
    written.unit = &*unit;
    return written;
  }

  std::int64_t read_whole() const {
    const Written written = read();
    constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max();
    // Both factors are below 2^63, so the product fits; a power of ten is then applied with checks.
    Wide value = static_cast<Wide>(written.digits) * static_cast<std::int64_t>(written.unit->size);
    for (int e = written.exponent; e > 0 && value != 0; --e) {
      value *= 10;
      if (value > limit) fail("is too large", example());
    }
    for (int e = written.exponent; e < 0 && value != 0; ++e) {
      if (value % 10 != 0)
        fail(fmt::format("is no whole number of {}s", grammar_.whole), "round it");
      value /= 10;
    }
    if (value > limit) fail("is too large", example());
    return static_cast<std::int64_t>(value);
  }

  double read_rate() const {
    const Written written = read();
    double value = 0;
    const char* const end = written.number.data() + written.number.size();
    const bool in_range = std::from_chars(written.number.data(), end, value).ec == std::errc();
    value *= written.unit->size;
    if (!in_range || !std::isfinite(value)) fail("is too large or too small", example());
    if (value <= 0) fail("is not positive", example());
    return value;
  }

 private:
  static std::string_view trimmed(std::string_view text) {
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
  }

  std::string_view take_number(std::string_view& rest, Written& written) const {
    const std::string_view begin = rest;
    int digits = 0;
    bool point = false;
    for (; !rest.empty() && (is_digit(rest.front()) || (rest.front() == '.' && !point));
         rest.remove_prefix(1)) {
      if (rest.front() == '.') {
        point = true;
        continue;
      }
      add_digit(written, rest.front() - '0');
      if (point) --written.exponent;
      ++digits;
    }
    if (digits == 0) fail("does not start with a number", example());
    take_exponent(rest, written);
    return begin.substr(0, begin.size() - rest.size());
  }

  void add_digit(Written& written, int digit) const {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 10 - 1;
    if (written.digits > most) fail("has too many digits", example());
    written.digits = written.digits * 10 + digit;
  }

  /// "e9" is an exponent only if digits follow: "5 EB" is not.
  void take_exponent(std::string_view& rest, Written& written) const {
    if (rest.empty() || (rest[0] != 'e' && rest[0] != 'E')) return;
    std::string_view number = rest.substr(1);
    if (number.starts_with('+')) number.remove_prefix(1);
    int exponent = 0;
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), exponent);
    constexpr int largest = 400;
    if (error == std::errc::result_out_of_range || std::abs(exponent) > largest)
      fail("is too large or too small", example());
    if (error != std::errc()) return;
    written.exponent += exponent;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }

  std::string example() const { return fmt::format("for example \"{}\"", grammar_.example); }

  std::string known_units(std::string_view written) const {
    std::string names;
    std::vector<std::string_view> all;
    for (const Unit& unit : grammar_.units) all.push_back(unit.name);
    for (const Unit& unit : grammar_.units)
      if (unit.spoken || unit.name.find("bit") != std::string_view::npos ||
          unit.name.find('i') != std::string_view::npos)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", unit.name);
    const auto nearest = nearest_word(written, all);
    return nearest ? fmt::format("did you mean \"{}\"? known are {}", *nearest, names)
                   : "known are " + names;
  }

  [[noreturn]] void fail(std::string_view what, std::string way_out) const {
    throw Error({.where = std::string(where_),
                 .what = fmt::format("\"{}\" {}", shown(text_, 40), what),
                 .way_out = std::move(way_out)});
  }

  std::string_view text_;
  std::string_view where_;
  const Grammar& grammar_;
};

/// The shortest "<whole number> <unit>"; of equally short ones the largest unit.
std::string whole_text(std::int64_t value, std::span<const Unit> units) {
  std::string best = fmt::format("{} {}", value, units.front().name);
  for (const Unit& unit : units.subspan(1)) {
    const auto size = static_cast<std::int64_t>(unit.size);
    if (!unit.spoken || value == 0 || value % size != 0) continue;
    const std::string text = fmt::format("{} {}", value / size, unit.name);
    if (text.size() <= best.size()) best = text;
  }
  return best;
}

/// The shortest "<number> <unit>" that reads back as exactly `value`.
std::string rate_text(double value, const Grammar& grammar) {
  std::string best = fmt::format("{} {}", value, grammar.units.front().name);
  for (const Unit& unit : grammar.units.subspan(1)) {
    if (!unit.spoken || value < unit.size) continue;
    const std::string text = fmt::format("{} {}", value / unit.size, unit.name);
    if (text.size() <= best.size() && QuantityReader(text, {}, grammar).read_rate() == value)
      best = text;
  }
  return best;
}

std::string three_digits(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

/// Three significant digits in the largest of `units` (ascending) that leaves at least 1.
std::string people_text(double value, std::span<const Unit> units) {
  const Unit* chosen = &units.front();
  for (const Unit& unit : units)
    if (std::abs(value) >= unit.size * 0.9995) chosen = &unit;
  return fmt::format("{} {}", three_digits(value / chosen->size), chosen->name);
}

/// As people_text, but a count of the smallest unit has no fraction.
std::string people_text_of_count(std::int64_t value, std::span<const Unit> units) {
  const double second_unit = units[1].size;
  if (std::abs(static_cast<double>(value)) < second_unit)
    return fmt::format("{} {}", value, units.front().name);
  return people_text(static_cast<double>(value), units);
}

constexpr Unit people_byte_units[] = {{"B", 1},
                                      {"KiB", kibi},
                                      {"MiB", kibi* kibi},
                                      {"GiB", kibi* kibi* kibi},
                                      {"TiB", kibi* kibi* kibi* kibi}};
constexpr std::span people_duration_units = std::span(duration_units).first(4);
constexpr std::span people_bandwidth_units = std::span(bandwidth_units).first(6);
constexpr std::span people_flop_rate_units = std::span(flop_rate_units).first(7);

}  // namespace

Bytes parse_bytes(std::string_view text, std::string_view where) {
  return {QuantityReader(text, where, bytes_grammar).read_whole()};
}
Duration parse_duration(std::string_view text, std::string_view where) {
  return {QuantityReader(text, where, duration_grammar).read_whole()};
}
Bandwidth parse_bandwidth(std::string_view text, std::string_view where) {
  return {QuantityReader(text, where, bandwidth_grammar).read_rate()};
}
FlopRate parse_flop_rate(std::string_view text, std::string_view where) {
  return {QuantityReader(text, where, flop_rate_grammar).read_rate()};
}
Frequency parse_frequency(std::string_view text, std::string_view where) {
  return {QuantityReader(text, where, frequency_grammar).read_rate()};
}
Power parse_power(std::string_view text, std::string_view where) {
  return {QuantityReader(text, where, power_grammar).read_rate()};
}

std::string exact_text(Bytes bytes) { return whole_text(bytes.count, byte_units); }
std::string exact_text(Duration duration) { return whole_text(duration.ns, duration_units); }
std::string exact_text(Bandwidth bandwidth) {
  return rate_text(bandwidth.bytes_per_s, bandwidth_grammar);
}
std::string exact_text(FlopRate rate) { return rate_text(rate.flops_per_s, flop_rate_grammar); }
std::string exact_text(Frequency frequency) {
  return rate_text(frequency.hertz, frequency_grammar);
}
std::string exact_text(Power power) { return rate_text(power.watts, power_grammar); }

std::string rounded_text(Bytes bytes) {
  return people_text_of_count(bytes.count, people_byte_units);
}
std::string rounded_text(Duration duration) {
  return people_text_of_count(duration.ns, people_duration_units);
}
std::string rounded_text(Bandwidth bandwidth) {
  return people_text(bandwidth.bytes_per_s, people_bandwidth_units);
}
std::string rounded_text(FlopRate rate) {
  return people_text(rate.flops_per_s, people_flop_rate_units);
}

}  // namespace shardscope
