#include "core/config/deepspeed/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "core/base/refusal.h"
#include "core/config/deepspeed/base64.h"
#include "core/config/values/config_json.h"

namespace shardscope {
namespace {

Refusal no_dict(const ConfigValue& value) {
  return Refusal("AttributeError",
                 {.where = value.line() > 0 ? fmt::format("line {}", value.line()) : std::string(),
                  .what = fmt::format("expected a section with keys, got {}", value.repr()),
                  .way_out = "write { \"key\": value, ... }"});
}

/// The dict that holds the last part of a long key, and that part; no dict where a section on the
/// way is missing or null.
template <class Value>
struct Node {
  Value* dict;
  std::string_view key;
};

template <class Value>
Node<Value> find_node(Value& config, std::string_view long_key) {
  Value* dict = &config;
  std::size_t dot = 0;
  while ((dot = long_key.find('.')) != std::string_view::npos) {
    if (!dict->is_dict()) throw no_dict(*dict);
    dict = dict->find(long_key.substr(0, dot));
    if (dict == nullptr || dict->is_null()) return {nullptr, long_key};
    long_key.remove_prefix(dot + 1);
  }
  return {dict, long_key};
}

ConfigValue parsed(const std::string& text) {
  try {
    return read_json(text, "deepspeed_config");
  } catch (const Refusal&) {
    const std::optional<std::string> decoded = decode_base64_url(text);
    try {
      if (decoded) return read_json(*decoded, "deepspeed_config (base64)");
    } catch (const Refusal&) {
    }
  }
  throw Refusal(
      "ValueError",
      {.where = text.substr(0, 200),
       .what = "there is no such DeepSpeed configuration, and it is neither JSON nor base64",
       .way_out = "give the path of a file that exists"});
}

}  // namespace

ConfigValue get_of_dict(const ConfigValue& value, std::string_view key) {
  if (!value.is_dict()) throw no_dict(value);
  return value.get(key);
}

HfDeepSpeedConfig::HfDeepSpeedConfig(ConfigValue config) : config_(std::move(config)) {
  set_stage_and_offload();
}

HfDeepSpeedConfig HfDeepSpeedConfig::load(const ConfigValue& file_or_dict,
                                          const ReadFile& read_file) {
  if (file_or_dict.is_dict()) return HfDeepSpeedConfig(file_or_dict);
  if (!file_or_dict.is_string())
    throw Refusal("TypeError",
                  fmt::format("expected a path or a dict, got {}", file_or_dict.repr()));
  const std::string& path = file_or_dict.string();
  const std::optional<std::string> text = read_file(path);
  return HfDeepSpeedConfig(text ? read_json(*text, path) : parsed(path));
}

void HfDeepSpeedConfig::replace_auto(std::string_view long_key, const ConfigValue& value) {
  const Node<ConfigValue> node = find_node(config_, long_key);
  if (node.dict != nullptr && get_of_dict(*node.dict, node.key).is("auto"))
    node.dict->set(node.key, value);
}

ConfigValue HfDeepSpeedConfig::value(std::string_view long_key) const {
  const Node<const ConfigValue> node = find_node(config_, long_key);
  return node.dict == nullptr ? ConfigValue() : get_of_dict(*node.dict, node.key);
}

void HfDeepSpeedConfig::set_stage_and_offload() {
  stage_ = value("zero_optimization.stage");
  offload_ = false;
  if (!is_zero2() && !is_zero3()) return;
  for (const char* key :
       {"zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device"}) {
    const ConfigValue device = value(key);
    offload_ = offload_ || device.is("cpu") || device.is("nvme");
  }
}

const std::vector<std::string>& hidden_size_keys() {
  static const std::vector<std::string> keys{
      "zero_optimization.reduce_bucket_size", "zero_optimization.stage3_prefetch_bucket_size",
      "zero_optimization.stage3_param_persistence_threshold"};
  return keys;
}

}  // namespace shardscope
