#include "core/config/recipe/recipe_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/base/nearest_word.h"
#include "core/config/trainer/training_args_fields.h"
#include "core/format/python_text.h"

namespace shardscope::recipes {
namespace {

constexpr std::int64_t largest_count = (std::int64_t{1} << 31) - 1;

/// Arguments that this project's reader of TrainingArguments understands.
constexpr std::string_view step_arguments[] = {"per_device_train_batch_size",
                                               "gradient_accumulation_steps",
                                               "max_grad_norm",
                                               "optim",
                                               "optim_args",
                                               "optim_target_modules",
                                               "bf16",
                                               "fp16",
                                               "activation_checkpointing",
                                               "activation_checkpointing_kwargs",
                                               "gradient_checkpointing",
                                               "gradient_checkpointing_kwargs",
                                               "torch_compile",
                                               "torch_compile_backend",
                                               "torch_compile_mode",
                                               "use_liger_kernel",
                                               "neftune_noise_alpha",
                                               "torch_empty_cache_steps",
                                               "auto_find_batch_size",
                                               "label_smoothing_factor",
                                               "accelerator_config",
                                               "eval_strategy",
                                               "per_device_eval_batch_size",
                                               "ddp_find_unused_parameters",
                                               "ddp_bucket_cap_mb",
                                               "ddp_broadcast_buffers",
                                               "ddp_static_graph",
                                               "fsdp",
                                               "fsdp_config",
                                               "deepspeed"};

/// Arguments of transformers 4 that its version 5 dropped and that no step depends on.
constexpr std::string_view former_arguments[] = {"overwrite_output_dir",
                                                 "evaluation_strategy",
                                                 "warmup_ratio",
                                                 "save_safetensors",
                                                 "group_by_length",
                                                 "logging_dir",
                                                 "push_to_hub_model_id",
                                                 "include_tokens_per_second",
                                                 "ddp_timeout",
                                                 "use_mps_device",
                                                 "no_cuda",
                                                 "predict_with_generate",
                                                 "generation_max_length",
                                                 "generation_num_beams",
                                                 "generation_config",
                                                 "past_index",
                                                 "jit_mode_eval",
                                                 "eval_do_concat_batches",
                                                 "dataloader_num_workers"};

}  // namespace

Keys::Keys(const ConfigValue& dict, std::string file, std::string section)
    : dict_(dict), file_(std::move(file)), section_(std::move(section)), findings_(file_) {}

std::string Keys::path(std::string_view key) const {
  return section_.empty() ? std::string(key) : fmt::format("{}.{}", section_, key);
}

int Keys::line(std::string_view key) const {
  const ConfigValue::Entry* entry = entry_of(dict_, key);
  return entry ? entry->line : 0;
}

bool Keys::has(std::string_view key) const {
  const ConfigValue* value = dict_.is_dict() ? dict_.find(key) : nullptr;
  return value && !value->is_null();
}

ConfigValue Keys::take(std::string_view key) {
  read_.emplace(key);
  const ConfigValue* value = dict_.is_dict() ? dict_.find(key) : nullptr;
  return value ? *value : ConfigValue();
}

ConfigValue Keys::take(std::initializer_list<std::string_view> names) {
  ConfigValue found;
  for (const std::string_view name : names) {
    ConfigValue value = take(name);
    if (found.is_null()) found = std::move(value);
  }
  return found;
}

Error Keys::error(std::string_view key, std::string what, std::string way_out) const {
  const int at = line(key);
  return Error({.where = at > 0 ? fmt::format("{}:{}: {}", file_, at, path(key))
                                : fmt::format("{}: {}", file_, path(key)),
                .what = std::move(what),
                .way_out = std::move(way_out)});
}

bool Keys::flag(std::string_view key, bool otherwise) {
  const ConfigValue value = take(key);
  if (value.is_null()) return otherwise;
  if (value.is_boolean()) return value.boolean();
  const std::string word = value.is_string() ? lower_of(value.string()) : value.str();
  if (word == "true" || word == "1") return true;
  if (word == "false" || word == "0") return false;
  throw error(key, fmt::format("expected true or false, got {}", value.repr()),
              "write true or false");
}

std::int64_t Keys::count(std::string_view key, std::int64_t otherwise) {
  const ConfigValue value = take(key);
  if (value.is_null()) return otherwise;
  if (value.is_integer() && value.integer() >= 1 && value.integer() <= largest_count)
    return value.integer();
  throw error(key, fmt::format("expected 1 to {}, got {}", largest_count, value.repr()),
              "write a whole number");
}

double Keys::number(std::string_view key, double otherwise) {
  const ConfigValue value = take(key);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean() && value.is_number() && std::isfinite(value.number()))
    return value.number();
  // YAML 1.1 reads 1e-4 as text, and the tools turn it into a number.
  if (value.is_string()) {
    double parsed = 0;
    const std::string& text = value.string();
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (failed == std::errc() && end == text.data() + text.size() && std::isfinite(parsed))
      return parsed;
  }
  throw error(key, fmt::format("expected a number, got {}", value.repr()), "write a number");
}

std::string Keys::text(std::string_view key, std::string_view otherwise) {
  const ConfigValue value = take(key);
  if (value.is_null()) return std::string(otherwise);
  if (value.is_string()) return value.string();
  throw error(key, fmt::format("expected text, got {}", value.repr()), "write a word");
}

std::vector<std::string> Keys::names(std::string_view key) {
  const ConfigValue value = take(key);
  std::vector<std::string> all;
  if (value.is_null()) return all;
  if (value.is_list()) {
    for (const ConfigValue& element : value.elements()) {
      if (!element.is_string())
        throw error(key, fmt::format("expected names, got {}", element.repr()), "write a list");
      all.push_back(element.string());
    }
    return all;
  }
  if (!value.is_string())
    throw error(key, fmt::format("expected names, got {}", value.repr()), "write a list of names");
  std::string_view rest = value.string();
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (const std::string_view name = stripped(rest.substr(0, comma)); !name.empty())
      all.emplace_back(name);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return all;
}

void Keys::warn(std::string_view key, std::string rule, std::string message, std::string mend) {
  findings_.add({.rule = std::move(rule),
                 .severity = Severity::warning,
                 .message = std::move(message),
                 .mend = std::move(mend)},
                line(key), path(key));
}

void Keys::finish(std::span<const LeftOut> left_out, std::span<const std::string_view> no_bearing,
                  std::span<const std::string_view> others, std::string_view tool,
                  UnknownKeys unknown_keys) {
  if (!dict_.is_dict()) return;
  const auto among = [](std::span<const std::string_view> all, std::string_view key) {
    return std::find(all.begin(), all.end(), key) != all.end();
  };
  std::vector<std::string_view> known(no_bearing.begin(), no_bearing.end());
  known.insert(known.end(), others.begin(), others.end());
  known.insert(known.end(), read_.begin(), read_.end());
  for (const LeftOut& key : left_out) known.push_back(key.key);
  int unknown = 0;
  for (const ConfigValue::Entry& entry : dict_.entries()) {
    if (read_.find(entry.key) != read_.end() || among(no_bearing, entry.key)) continue;
    const auto left = std::find_if(left_out.begin(), left_out.end(),
                                   [&](const LeftOut& key) { return key.key == entry.key; });
    if (left != left_out.end()) {
      if (!is_off(entry.value))
        warn(entry.key, "not-modelled", fmt::format("is not modelled: {}", left->effect), {});
      continue;
    }
    if (among(others, entry.key) || ++unknown > most_unknown_keys) continue;
    const auto near = nearest_word(entry.key, known);
    const bool refused = unknown_keys == UnknownKeys::refused;
    findings_.add(
        {.rule = "unknown-key",
         .severity = refused ? Severity::error : Severity::warning,
         .message = std::string(tool) + (refused ? " has no such key and raises ValueError"
                                                 : " is not known to have this key"),
         .mend =
             near ? fmt::format("did you mean \"{}\"?", *near) : "remove it, or check its name"},
        line(entry.key), path(entry.key));
  }
}

std::vector<Finding> by_line(std::vector<Finding> findings, std::span<const Finding> more) {
  findings.insert(findings.end(), more.begin(), more.end());
  std::ranges::stable_sort(findings, {}, &Finding::line);
  return findings;
}

bool is_off(const ConfigValue& value) { return !value.truthy() || value.is("none"); }

ConfigValue adapter_of(const LoraArguments& lora) {
  ConfigValue adapter = ConfigValue::dict();
  adapter.set("r", lora.rank);
  adapter.set("lora_alpha", lora.alpha);
  adapter.set("lora_dropout", lora.dropout);
  const auto list = [](const std::vector<std::string>& names) {
    ConfigValue::List values;
    for (const std::string& name : names) values.emplace_back(name);
    return ConfigValue(std::move(values));
  };
  if (lora.all_linear) adapter.set("target_modules", "all-linear");
  if (lora.all_linear && lora.lists_linear) adapter.set("lists_linear_layers", true);
  if (!lora.all_linear && !lora.targets.empty()) adapter.set("target_modules", list(lora.targets));
  if (!lora.target_parameters.empty())
    adapter.set("target_parameters", list(lora.target_parameters));
  if (!lora.modules_to_save.empty()) adapter.set("modules_to_save", list(lora.modules_to_save));
  if (lora.rank_stabilized) adapter.set("use_rslora", true);
  if (lora.dora) adapter.set("use_dora", true);
  return adapter;
}

void take_training_arguments(Keys& keys, ConfigValue& arguments) {
  for (const std::string_view name : step_arguments)
    if (keys.has(name)) arguments.set(name, keys.take(name));
}

std::span<const std::string_view> trainer_keys() {
  static const std::vector<std::string_view> all = [] {
    std::vector<std::string_view> names(std::begin(former_arguments), std::end(former_arguments));
    for (const TrainingArgumentField& field : training_argument_fields())
      names.push_back(field.name);
    return names;
  }();
  return all;
}

}  // namespace shardscope::recipes
