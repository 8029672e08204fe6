#include "sim/hardware/profile_file.h"

#include "sim/hardware/builtin_profiles.h"

namespace shardscope {
namespace {

constexpr std::string_view base_key = "based_on";
constexpr std::size_t most_layers = 8;

}  // namespace

ProfileFile::ProfileFile(const JsonValue& own) : layers_{own} {
  while (const auto base = layers_.back().find(base_key)) {
    const BuiltinProfile* profile = find_builtin_profile(base->string());
    if (profile == nullptr)
      throw base->error("no ready profile \"" + base->string() + "\"",
                        builtin_profile_advice(base->string()));
    if (layers_.size() == most_layers) throw base->error("based on too many others");
    layers_.push_back(JsonValue::parse(profile->text, profile->name));
  }
}

std::optional<JsonValue> ProfileFile::find(std::string_view key) const {
  for (const JsonValue& layer : layers_)
    if (layer.has(key)) return layer.find(key);
  return std::nullopt;
}

bool ProfileFile::is_below(std::string_view key, std::string_view other) const {
  for (const JsonValue& layer : layers_) {
    if (layer.has(key)) return false;
    if (layer.has(other)) return true;
  }
  return false;
}

JsonValue ProfileFile::at(std::string_view key) const {
  const std::optional<JsonValue> value = find(key);
  return value ? *value : layers_.front().at(key);
}

}  // namespace shardscope
