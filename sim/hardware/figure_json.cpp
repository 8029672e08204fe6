#include "sim/hardware/figure_json.h"

namespace shardscope {

std::string read_text(const JsonValue& value) {
  std::string text = value.string();
  if (text.empty()) throw value.error("must not be empty");
  return text;
}

Provenance read_provenance(const JsonValue& figure) {
  constexpr double largest_spread = 10;
  const std::optional<JsonValue> spread = figure.find("spread");
  return {.origin = read_name(
              figure.at("origin"),
              {Origin::measured, Origin::vendor, Origin::published, Origin::assumed}, "origin"),
          .source = read_text(figure.at("source")),
          .date = read_text(figure.at("date")),
          .spread = spread ? spread->number(0, largest_spread) : 0};
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + "\"";
}

std::string provenance_json(const HardwareProfile& profile, std::string_view key) {
  const auto found = profile.provenance.find(key);
  const Provenance provenance = found == profile.provenance.end() ? Provenance{} : found->second;
  std::string text =
      fmt::format("\"origin\": \"{}\", \"source\": {}, \"date\": {}", name_of(provenance.origin),
                  json_text(provenance.source), json_text(provenance.date));
  if (provenance.spread > 0) text += fmt::format(", \"spread\": {}", provenance.spread);
  return text;
}

namespace {

template <class Quantity>
struct Range {
  Quantity least, most;
  std::string_view least_text, most_text;
};

template <class Quantity>
void check_within(const JsonValue& value, Quantity given, const Range<Quantity>& range) {
  if (given < range.least)
    throw value.error(fmt::format("{} is too low to simulate", value.string()),
                      fmt::format("give at least {}", range.least_text));
  if (given > range.most)
    throw value.error(fmt::format("{} is too high to simulate", value.string()),
                      fmt::format("give at most {}", range.most_text));
}

constexpr Range<Bandwidth> bandwidths{{1e6}, {1e16}, "1 MB/s", "10000 TB/s"};
constexpr Range<FlopRate> rates{{1e6}, {1e20}, "1 MFLOP/s", "100000000 TFLOP/s"};
constexpr Range<Frequency> frequencies{{1e6}, {1e12}, "1 MHz", "1000 GHz"};
constexpr Range<Power> powers{{1}, {1e6}, "1 W", "1 MW"};

}  // namespace

void check_range(const JsonValue& value, Bandwidth bandwidth) {
  if (bandwidth != Bandwidth{}) check_within(value, bandwidth, bandwidths);
}

void check_range(const JsonValue& value, FlopRate rate) {
  if (rate != FlopRate{}) check_within(value, rate, rates);
}

void check_range(const JsonValue& value, Duration time) {
  constexpr Duration longest = 3600_s;
  if (time > longest)
    throw value.error(fmt::format("{} is too long to simulate", value.string()),
                      "give at most an hour");
}

void check_range(const JsonValue& value, Frequency frequency) {
  check_within(value, frequency, frequencies);
}

void check_range(const JsonValue& value, Power power) { check_within(value, power, powers); }

}  // namespace shardscope
