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

void check_range(const JsonValue& value, Bandwidth bandwidth) {
  constexpr Bandwidth least{1e6}, most{1e16};
  if (bandwidth > Bandwidth{} && bandwidth < least)
    throw value.error(fmt::format("{} is too low to simulate", value.string()),
                      "give at least 1 MB/s");
  if (bandwidth > most)
    throw value.error(fmt::format("{} is too high to simulate", value.string()),
                      "give at most 10000 TB/s");
}

void check_range(const JsonValue& value, FlopRate rate) {
  constexpr FlopRate least{1e6}, most{1e20};
  if (rate > FlopRate{} && rate < least)
    throw value.error(fmt::format("{} is too low to simulate", value.string()),
                      "give at least 1 MFLOP/s");
  if (rate > most)
    throw value.error(fmt::format("{} is too high to simulate", value.string()),
                      "give at most 100000000 TFLOP/s");
}

void check_range(const JsonValue& value, Duration time) {
  constexpr Duration longest = 3600_s;
  if (time > longest)
    throw value.error(fmt::format("{} is too long to simulate", value.string()),
                      "give at most an hour");
}

void check_range(const JsonValue& value, Frequency frequency) {
  constexpr Frequency least{1e6}, most{1e12};
  if (frequency < least)
    throw value.error(fmt::format("{} is too low to simulate", value.string()),
                      "give at least 1 MHz");
  if (frequency > most)
    throw value.error(fmt::format("{} is too high to simulate", value.string()),
                      "give at most 1000 GHz");
}

void check_range(const JsonValue& value, Power power) {
  constexpr Power least{1}, most{1e6};
  if (power < least)
    throw value.error(fmt::format("{} is too low to simulate", value.string()),
                      "give at least 1 W");
  if (power > most)
    throw value.error(fmt::format("{} is too high to simulate", value.string()),
                      "give at most 1 MW");
}

}  // namespace shardscope
