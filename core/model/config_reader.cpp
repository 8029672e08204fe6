#include "core/model/config_reader.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "core/model/config_defaults.h"

namespace shardscope {
namespace {

constexpr std::int64_t largest_size = std::int64_t{1}
                                      << 26;  // a product of two stays far from overflow
constexpr std::int64_t most_layers = 4096;

}  // namespace

ConfigReader::ConfigReader(JsonValue config, JsonValue defaults, TransformersVersion version)
    : sources_{std::move(config), std::move(defaults), common_config_defaults(version)},
      version_(version) {}

std::optional<JsonValue> ConfigReader::find(std::string_view key) const {
  for (const JsonValue& source : sources_)
    if (source.has(key)) return source.find(key);
  return std::nullopt;
}

bool ConfigReader::declares(std::string_view key) const { return sources_[1].has(key); }

JsonValue ConfigReader::first_of(std::initializer_list<std::string_view> keys) const {
  for (const JsonValue& source : sources_)
    for (const std::string_view key : keys)
      if (source.has(key)) return source.at(key);
  return config().at(*std::prev(keys.end()));
}

std::int64_t ConfigReader::size(std::initializer_list<std::string_view> keys) const {
  return first_of(keys).integer(1, largest_size);
}

std::optional<std::int64_t> ConfigReader::optional_size(std::string_view key) const {
  const auto value = find(key);
  if (!value) return std::nullopt;
  return value->integer(1, largest_size);
}

std::int64_t ConfigReader::layers(std::initializer_list<std::string_view> keys) const {
  return first_of(keys).integer(1, most_layers);
}

std::int64_t ConfigReader::integer(std::string_view key) const { return first_of({key}).integer(); }

double ConfigReader::positive(std::string_view key) const {
  const JsonValue value = first_of({key});
  if (value.is_number() && value.number() <= 0)
    throw value.error(fmt::format("must be positive, got {}", value.dump()),
                      "write for example 1e-5");
  if (version_ == TransformersVersion::v5 && value.is_integer())
    throw value.error(fmt::format("expected a float, got {}", value.dump()),
                      "write it with a point, as transformers 5 demands");
  return positive_number(value);
}

double ConfigReader::probability(std::string_view key) const {
  return first_of({key}).number(0, 1);
}

bool ConfigReader::flag(std::string_view key) const { return first_of({key}).boolean(); }

std::string ConfigReader::text(std::string_view key) const { return first_of({key}).string(); }

double ConfigReader::deviation(std::string_view key) const {
  constexpr double otherwise = 0.02;
  const JsonValue value = first_of({key});
  const double range = version_ == TransformersVersion::v4 ? value.number(0) : value.number(0, 1);
  return range == 0 ? otherwise : range;
}

void ConfigReader::check_padding_token(std::int64_t rows) const {
  constexpr std::string_view key = "pad_token_id";
  const auto token = find(key);
  if (!token) return;
  const std::int64_t row = token->integer();
  if (row >= rows || row < -rows)
    throw error(key, fmt::format("pad_token_id {} is outside a vocabulary of {}", row, rows));
}

std::int64_t ConfigReader::labels() const {
  constexpr std::int64_t transformers_default = 2;
  const auto count = optional_size("num_labels");
  const auto names = config().find("id2label");
  const bool by_count = count && (!names || version_ == TransformersVersion::v5);
  if (by_count) return *count;
  return names ? static_cast<std::int64_t>(names->size()) : transformers_default;
}

Error ConfigReader::error(std::string_view key, std::string what, std::string way_out) const {
  const auto value = config().find(key);
  return (value ? *value : config()).error(std::move(what), std::move(way_out));
}

double positive_number(const JsonValue& value) {
  const double number = value.number(0);
  if (number == 0) throw value.error("expected a number above 0, got 0");
  return number;
}

}  // namespace shardscope
