#include "core/config/deepspeed/model_widths.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "core/base/refusal.h"
#include "core/model/family.h"

namespace shardscope {
namespace {

/// The key itself, else the name that the family's config class gives it; a family's default where
/// neither stands.
std::optional<std::int64_t> hidden_size_of(const JsonValue& config) {
  const auto in = [](const JsonValue& object, std::string_view key) -> std::optional<std::int64_t> {
    const std::optional<JsonValue> value = object.find(key);
    if (!value) return std::nullopt;
    return value->integer(1, std::int64_t{1} << 31);
  };
  if (const auto size = in(config, "hidden_size")) return size;
  const std::optional<JsonValue> type = config.find("model_type");
  const ModelFamily* family = type ? find_family(type->string()) : nullptr;
  if (family == nullptr) return std::nullopt;
  const JsonValue defaults = defaults_of(*family, TransformersVersion::v5);
  for (const auto& [name, alias] : family->config_aliases) {
    if (name != "hidden_size") continue;
    if (const auto size = in(config, alias)) return size;
    if (const auto size = in(defaults, alias)) return size;
  }
  return in(defaults, "hidden_size");
}

std::vector<std::int64_t> hidden_sizes_of(const JsonValue& config) {
  std::vector<std::int64_t> sizes;
  if (const std::optional<JsonValue> given = config.find("hidden_sizes"))
    for (const JsonValue& size : given->elements())
      sizes.push_back(size.integer(1, std::int64_t{1} << 31));
  return sizes;
}

}  // namespace

std::optional<std::int64_t> ModelWidths::width() const {
  if (hidden_size || hidden_sizes.empty()) return hidden_size;
  return *std::max_element(hidden_sizes.begin(), hidden_sizes.end());
}

std::optional<std::int64_t> width_for_autos(const HfDeepSpeedConfig& config,
                                            const ModelWidths& model) {
  std::vector<std::string> autos;
  std::copy_if(hidden_size_keys().begin(), hidden_size_keys().end(), std::back_inserter(autos),
               [&](const std::string& key) { return config.is_auto(key); });
  if (autos.empty()) return std::nullopt;
  const std::optional<std::int64_t> width = model.has_config ? model.width() : std::nullopt;
  if (!width)
    throw Refusal(
        "ValueError",
        {.where = fmt::format("{}", fmt::join(autos, ", ")),
         .what = "\"auto\" needs hidden_size or hidden_sizes of the model's config, which "
                 "it does not have",
         .way_out = "give numbers of elements"});
  return width;
}

std::int64_t prefetch_elements(std::int64_t width) {
  const auto w = static_cast<double>(width);
  return static_cast<std::int64_t>(0.9 * w * w);
}

ModelWidths widths_of_config(const JsonValue& config) {
  ModelWidths widths{.hidden_size = hidden_size_of(config)};
  if (!widths.hidden_size) widths.hidden_sizes = hidden_sizes_of(config);
  return widths;
}

}  // namespace shardscope
