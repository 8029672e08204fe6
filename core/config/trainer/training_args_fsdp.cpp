#include "core/config/trainer/training_args_fsdp.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "core/base/refusal.h"
#include "core/config/deepspeed/hf_config.h"
#include "core/config/values/config_json.h"
#include "core/config/values/python_arithmetic.h"
#include "core/config/values/python_number.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

constexpr std::array<std::string_view, 5> sharding_strategies{
    "FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"};
constexpr std::array<std::string_view, 3> wrap_policies{"TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP",
                                                        "NO_WRAP"};

Refusal refused(std::string type, std::string_view key, std::string what,
                std::string way_out = {}) {
  return Refusal(
      std::move(type),
      {.where = std::string(key), .what = std::move(what), .way_out = std::move(way_out)});
}

ConfigValue read_config(const ConfigValue& fsdp_config, const ReadFile& read_file) {
  if (fsdp_config.is_null()) return ConfigValue::dict();
  ConfigValue config = fsdp_config;
  if (fsdp_config.is_string()) {
    const std::optional<std::string> text = read_file(fsdp_config.string());
    if (!text)
      throw refused("FileNotFoundError", "fsdp_config",
                    fmt::format("there is no file \"{}\"", fsdp_config.string()));
    config = read_json(*text, fsdp_config.string());
  }
  get_of_dict(config, {});
  return config;
}

/// "fsdp_version" and "version" are the same key; a renamed one takes the other's place, or moves
/// to the end.
void drop_prefixes(ConfigValue& config) {
  std::vector<std::optional<ConfigValue::Entry>> slots(config.entries().begin(),
                                                       config.entries().end());
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < slots.size(); ++i) places[slots[i]->key] = i;
  const std::size_t given = slots.size();
  for (std::size_t i = 0; i < given; ++i) {
    if (!slots[i] || !slots[i]->key.starts_with("fsdp_")) continue;
    ConfigValue::Entry entry = std::move(*slots[i]);
    slots[i].reset();
    places.erase(entry.key);
    entry.key.erase(0, 5);
    const auto [place, fresh] = places.emplace(entry.key, slots.size());
    if (fresh)
      slots.emplace_back(std::move(entry));
    else
      slots[place->second] = std::move(entry);
  }
  config.entries().clear();
  for (std::optional<ConfigValue::Entry>& slot : slots)
    if (slot) config.entries().push_back(std::move(*slot));
}

/// int(value).
std::int64_t whole(const ConfigValue& value) {
  if (value.is_string()) return python_integer(value.string()).integer();
  if (value.is_double() && std::abs(value.number()) < 0x1p53)
    return static_cast<std::int64_t>(value.number());
  if (value.is_integer() || value.is_boolean()) return value.integer();
  throw refused("TypeError", "fsdp_config.version", "expected 1 or 2, got " + value.repr());
}

std::int64_t version_of(const ConfigValue& config) {
  const ConfigValue* version = config.find("version");
  return version != nullptr ? whole(*version) : 2;
}

void set_default(ConfigValue& config, std::string_view key, const ConfigValue& value) {
  if (!config.has(key)) config.set(key, value);
}

void apply_strategy(ConfigValue& config, const std::string& word, std::int64_t version) {
  if (version != 2) return set_default(config, "reshard_after_forward", word);
  if (word != "full_shard" && word != "shard_grad_op")
    throw refused("ValueError", "fsdp",
                  fmt::format("\"{}\" goes only with FSDP1; FSDP2 is what transformers 5 takes by "
                              "default",
                              word),
                  "write full_shard or shard_grad_op in lower case, or set \"version\": 1 in "
                  "fsdp_config");
  set_default(config, "reshard_after_forward", word == "full_shard");
}

std::vector<std::string> words_of(const ConfigValue& fsdp) {
  std::vector<std::string> words;
  if (fsdp.is_list()) {
    for (const ConfigValue& word : fsdp.elements()) {
      if (!word.is_string())
        throw refused("AttributeError", "fsdp", "expected words, got " + word.repr());
      words.push_back(word.string());
    }
    return words;
  }
  std::string_view rest = stripped(fsdp.string());
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of(" \t\n\r\v\f"), rest.size());
    words.emplace_back(rest.substr(0, end));
    rest = stripped(rest.substr(end));
  }
  return words;
}

/// _apply_legacy_fsdp_to_config: the words never overrule a key of fsdp_config.
void apply_words(FsdpArguments& result, const ConfigValue& fsdp) {
  result.warnings.emplace_back(
      fmt::format("fsdp as a {} is deprecated and goes away; use fsdp=true and fsdp_config",
                  fsdp.is_list() ? "list" : "string"));
  const std::int64_t version = version_of(result.config);
  for (const std::string& word : words_of(fsdp)) {
    const std::string upper = upper_of(word);
    if (std::find(sharding_strategies.begin(), sharding_strategies.end(), upper) !=
        sharding_strategies.end())
      apply_strategy(result.config, word, version);
    else if (word == "offload")
      set_default(result.config, "cpu_offload", true);
    else if (word != "auto_wrap")
      throw refused("ValueError", "fsdp", fmt::format("unknown word \"{}\"", word),
                    "known are full_shard, shard_grad_op, no_shard, hybrid_shard, "
                    "hybrid_shard_zero2, offload, auto_wrap");
  }
}

void add_defaults(ConfigValue& config) {
  set_default(config, "min_num_params", 0);
  if (ConfigValue* classes = config.find("transformer_layer_cls_to_wrap");
      classes != nullptr && classes->is_string())
    *classes = ConfigValue::list({*classes});
  for (const char* key : {"xla", "xla_fsdp_v2", "xla_fsdp_grad_ckpt"})
    set_default(config, key, false);
}

/// The attributes of torch that are dtypes are what a user may name here.
void check_xla(const ConfigValue& config) {
  constexpr std::array<std::string_view, 9> dtypes{
      "float32", "float64", "float16", "bfloat16", "half", "float", "double", "int8", "int32"};
  const ConfigValue* settings = config.find("xla_fsdp_settings");
  if (settings == nullptr) return;
  for (const char* key : {"compute_dtype", "buffer_dtype"}) {
    const ConfigValue name = get_of_dict(*settings, key);
    if (!settings->has(key)) continue;
    if (!name.is_string()) throw refused("TypeError", key, "expected the name of a dtype");
    if (std::find(dtypes.begin(), dtypes.end(), name.string()) == dtypes.end())
      throw refused("AttributeError", key, "torch has no dtype " + name.string());
  }
}

/// str_to_bool(str(config.get(key, otherwise)).lower()).
bool truth(const ConfigValue& config, std::string_view key, bool otherwise) {
  const ConfigValue* value = config.find(key);
  return value != nullptr ? str_to_bool(value->str()) : otherwise;
}

/// ",".join(classes).
std::string joined_classes(const ConfigValue& classes) {
  if (!classes.is_list())
    throw refused("TypeError", "fsdp_config.transformer_layer_cls_to_wrap",
                  "expected class names, got " + classes.repr());
  std::string joined;
  for (const ConfigValue& name : classes.elements()) {
    if (!name.is_string())
      throw refused("TypeError", "fsdp_config.transformer_layer_cls_to_wrap",
                    "expected class names, got " + name.repr());
    if (&name != &classes.elements().front()) joined += ',';
    joined += name.string();
  }
  return joined;
}

void add_wrapping(ConfigValue& plugin, const ConfigValue& config) {
  const ConfigValue* given = config.find("auto_wrap_policy");
  const ConfigValue policy = given != nullptr ? *given : ConfigValue(wrap_policies[0]);
  if (!policy.is_string() ||
      std::find(wrap_policies.begin(), wrap_policies.end(), policy.string()) == wrap_policies.end())
    throw refused(
        "ValueError", "fsdp_config.auto_wrap_policy",
        "expected TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP or NO_WRAP, got " + policy.repr());
  plugin.set("auto_wrap_policy", policy);
  const ConfigValue& elements = config.at("min_num_params");
  const ConfigValue classes = config.get("transformer_layer_cls_to_wrap");
  if (policy.is("SIZE_BASED_WRAP") && is_greater(elements, ConfigValue(0)))
    plugin.set("min_num_params", elements);
  else if (policy.is("TRANSFORMER_BASED_WRAP") && !classes.is_null())
    plugin.set("transformer_cls_names_to_wrap", joined_classes(classes));
}

/// What only version 1 hands on.
void add_version_1(ConfigValue& plugin, const ConfigValue& config) {
  const ConfigValue* strategy = config.find("reshard_after_forward");
  plugin.set("reshard_after_forward",
             strategy != nullptr ? lower_of(strategy->str()) : "full_shard");
  plugin.set("forward_prefetch", truth(config, "forward_prefetch", false));
  const ConfigValue* prefetch = config.find("backward_prefetch");
  if (prefetch != nullptr && !prefetch->is_string())
    throw refused("AttributeError", "fsdp_config.backward_prefetch",
                  "expected a name, got " + prefetch->repr());
  plugin.set("backward_prefetch",
             prefetch != nullptr ? upper_of(prefetch->string()) : "NO_PREFETCH");
  plugin.set("use_orig_params", truth(config, "use_orig_params", true));
  plugin.set("sync_module_states", truth(config, "sync_module_states", true));
  if (config.has("limit_all_gathers"))
    plugin.set("limit_all_gathers", truth(config, "limit_all_gathers", true));
}

ConfigValue plugin_args_of(FsdpArguments& result) {
  const ConfigValue& config = result.config;
  const std::int64_t version = version_of(config);
  ConfigValue plugin = ConfigValue::dict({{"fsdp_version", version}});
  if (config.get("cpu_offload").truthy()) plugin.set("cpu_offload", true);
  add_wrapping(plugin, config);
  const ConfigValue* loading = config.find("cpu_ram_efficient_loading");
  const std::string efficient = loading != nullptr ? lower_of(loading->str()) : "false";
  plugin.set("cpu_ram_efficient_loading", str_to_bool(efficient));
  result.cpu_ram_efficient_loading = efficient;
  const ConfigValue* state_dict = config.find("state_dict_type");
  plugin.set("state_dict_type",
             state_dict != nullptr ? *state_dict : ConfigValue("FULL_STATE_DICT"));
  if (config.has("activation_checkpointing"))
    plugin.set("activation_checkpointing", truth(config, "activation_checkpointing", false));
  if (version == 2) {
    plugin.set("reshard_after_forward", truth(config, "reshard_after_forward", true));
    return plugin;
  }
  result.warnings.emplace_back(
      "FSDP1 is deprecated in transformers and will be removed; use version 2");
  add_version_1(plugin, config);
  return plugin;
}

}  // namespace

FsdpArguments process_fsdp_arguments(const ConfigValue& fsdp, const ConfigValue& fsdp_config,
                                     bool activation_checkpointing, const ReadFile& read_file) {
  FsdpArguments result{.fsdp = fsdp,
                       .config = fsdp_config,
                       .plugin_args = {},
                       .cpu_ram_efficient_loading = {},
                       .warnings = {}};
  if (!fsdp.truthy()) return result;
  result.config = read_config(fsdp_config, read_file);
  drop_prefixes(result.config);
  if (fsdp.is_string() || fsdp.is_list()) apply_words(result, fsdp);
  result.fsdp = true;
  if (activation_checkpointing)
    result.warnings.emplace_back(
        "activation_checkpointing of the Trainer gathers once more in backward than "
        "fsdp_config.activation_checkpointing");
  add_defaults(result.config);
  if (result.config.at("xla").truthy()) {
    check_xla(result.config);
    return result;
  }
  if (result.config.at("xla_fsdp_grad_ckpt").truthy())
    result.warnings.emplace_back("xla_fsdp_grad_ckpt has no effect without xla");
  result.plugin_args = plugin_args_of(result);
  return result;
}

}  // namespace shardscope
