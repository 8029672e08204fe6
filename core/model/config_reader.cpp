#include "core/model/config_reader.h"

#include <utility>

namespace shardscope {
namespace {

constexpr std::int64_t largest_size = std::int64_t{1}
                                      << 26;  // a product of two stays far from overflow
constexpr std::int64_t most_layers = 4096;

}  // namespace

std::optional<JsonValue> ConfigReader::first_of(
    std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys)
    if (auto value = config_.find(key)) return value;
  return std::nullopt;
}

std::int64_t ConfigReader::size(std::initializer_list<std::string_view> keys,
                                std::int64_t otherwise) const {
  const auto value = first_of(keys);
  return value ? value->integer(1, largest_size) : otherwise;
}

std::optional<std::int64_t> ConfigReader::optional_size(std::string_view key) const {
  const auto value = config_.find(key);
  if (!value) return std::nullopt;
  return value->integer(1, largest_size);
}

std::int64_t ConfigReader::layers(std::initializer_list<std::string_view> keys,
                                  std::int64_t otherwise) const {
  const auto value = first_of(keys);
  return value ? value->integer(1, most_layers) : otherwise;
}

double ConfigReader::positive(std::string_view key, double otherwise) const {
  const auto value = config_.find(key);
  if (!value) return otherwise;
  const double number = value->number(0);
  if (number == 0) throw value->error("expected a number above 0, got 0");
  return number;
}

double ConfigReader::probability(std::string_view key, double otherwise) const {
  const auto value = config_.find(key);
  return value ? value->number(0, 1) : otherwise;
}

bool ConfigReader::flag(std::string_view key, bool otherwise) const {
  const auto value = config_.find(key);
  return value ? value->boolean() : otherwise;
}

std::string ConfigReader::text(std::string_view key, std::string_view otherwise) const {
  const auto value = config_.find(key);
  return value ? value->string() : std::string(otherwise);
}

std::int64_t ConfigReader::labels() const {
  if (const auto count = optional_size("num_labels")) return *count;
  constexpr std::int64_t transformers_default = 2;
  const auto names = config_.find("id2label");
  return names ? static_cast<std::int64_t>(names->size()) : transformers_default;
}

Error ConfigReader::error(std::string_view key, std::string what, std::string way_out) const {
  const auto value = config_.find(key);
  return (value ? *value : config_).error(std::move(what), std::move(way_out));
}

}  // namespace shardscope
