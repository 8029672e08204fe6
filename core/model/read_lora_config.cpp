#include "core/model/read_lora_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr std::int64_t max_rank = 1 << 16;
constexpr std::int64_t initial_rank_of_adalora = 12;  // AdaLoraConfig.init_r

/// Settings that put other operators or parameters into the model.
constexpr std::string_view not_modelled[] = {"alora_invocation_tokens",
                                             "arrow_config",
                                             "kasa_config",
                                             "layer_replication",
                                             "megatron_config",
                                             "monteclora_config",
                                             "trainable_token_indices",
                                             "use_bdlora",
                                             "use_qalora",
                                             "velora_config"};

bool is_set(const JsonValue& value) {
  if (value.is_boolean()) return value.boolean();
  if (value.is_array() || value.is_object()) return value.size() > 0;
  return true;
}

bool flag(const JsonValue& config, std::string_view key) {
  const auto value = config.find(key);
  return value && value->boolean();
}

/// A string or a list of strings.
std::vector<std::string> strings(const JsonValue& value) {
  if (value.is_string()) return {value.string()};
  std::vector<std::string> all;
  for (const JsonValue& text : value.elements()) all.push_back(text.string());
  return all;
}

ModuleNames names_in(const JsonValue& value) {
  if (value.is_string()) return {.pattern = value.string()};
  return {.names = strings(value)};
}

bool is_all_linear(std::string_view text) {
  constexpr std::string_view all = "all-linear";
  return std::equal(text.begin(), text.end(), all.begin(), all.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

LoraBias bias_of(const JsonValue& value) {
  const std::string text = value.string();
  if (text == "none") return LoraBias::none;
  if (text == "all") return LoraBias::all;
  if (text == "lora_only") return LoraBias::lora_only;
  throw value.error(fmt::format("\"{}\" is no choice of biases", text),
                    "give none, all or lora_only");
}

void refuse_other_kinds(const JsonValue& config) {
  if (const auto type = config.find("peft_type");
      type && type->string() != "LORA" && type->string() != "ADALORA")
    throw type->error(fmt::format("adapters of type {} are not modelled", type->string()),
                      "LoRA, DoRA and AdaLoRA are");
  for (const std::string_view key : not_modelled)
    if (const auto value = config.find(key); value && is_set(*value))
      throw value->error("is not modelled", "LoRA, rsLoRA and DoRA on linear layers are");
}

/// PEFT takes these two fields only where target_modules is a list. Source: peft 0.21.2, LoraConfig
/// and AdaLoraConfig, __post_init__.
void check_layers(const JsonValue& config) {
  const auto targets = config.find("target_modules");
  for (const char* key : {"layers_to_transform", "layers_pattern"})
    if (targets && targets->is_string() && config.find(key))
      throw config.at(key).error(
          "cannot be used when target_modules is a string",
          "give target_modules as a list, or select the layers in its regular expression");
  const auto pattern = config.find("layers_pattern");
  const bool names =
      pattern && is_set(*pattern) && !(pattern->is_string() && pattern->string().empty());
  if (names && !config.find("layers_to_transform"))
    throw pattern->error("is given without layers_to_transform", "give layers_to_transform, too");
}

/// What AdaLoRA does not take. Source: peft 0.21.2, AdaLoraConfig.__post_init__.
void check_adalora(const JsonValue& config) {
  constexpr std::int64_t most_steps = std::int64_t{1} << 40;
  if (flag(config, "use_dora"))
    throw config.at("use_dora").error("AdaLoRA does not support DoRA", "leave it out");
  if (const auto loftq = config.find("loftq_config"); loftq && is_set(*loftq))
    throw loftq->error("AdaLoRA does not support LoftQ", "leave it out");
  const auto number = [&](std::string_view key, std::int64_t least) {
    const auto value = config.find(key);
    return value ? value->integer(least, most_steps) : 0;
  };
  if (!config.find("total_step"))
    throw config.error("has no total_step; AdaLoRA needs it",
                       "give the number of training steps as total_step");
  const std::int64_t total = number("total_step", 1);
  if (number("tinit", 0) >= total - number("tfinal", 0))
    throw config.at("total_step")
        .error("leaves no step between tinit and tfinal for the budget of ranks",
               "raise total_step, or lower tinit or tfinal");
  if (const auto weight = config.find("orth_reg_weight")) weight->number(0);
}

void take_usual_targets(std::string_view model_type, LoraConfig& lora) {
  lora.usual_targets = true;
  lora.targets.names =
      lora.adaptive_rank ? usual_adalora_targets(model_type) : usual_lora_targets(model_type);
}

/// Source: peft 0.21.2, LoraConfig.__post_init__.
std::vector<std::string> names_of_parameters(const JsonValue& value) {
  if (value.is_string())
    throw value.error("must be a list of strings",
                      "give for example [\"mlp.experts.gate_up_proj\", \"mlp.experts.down_proj\"]");
  return strings(value);
}

void read_targets(const JsonValue& config, std::string_view model_type, LoraConfig& lora) {
  const auto targets = config.find("target_modules");
  if (targets && targets->is_string() && is_all_linear(targets->string()))
    lora.all_linear = true;
  else if (targets)
    lora.targets = names_in(*targets);
  else
    take_usual_targets(model_type, lora);
  if (const auto parameters = config.find("target_parameters"))
    lora.target_parameters = names_of_parameters(*parameters);
  if (!lora.all_linear && lora.targets.empty() && lora.target_parameters.empty())
    throw config.error(
        fmt::format("has no target_modules, and PEFT knows none for model_type {}", model_type),
        "give target_modules, for example [\"q_proj\", \"v_proj\"] or \"all-linear\"");
  lora.lists_linear = flag(config, "lists_linear_layers");  // a Recipe's own
  if (const auto excluded = config.find("exclude_modules")) lora.excluded = names_in(*excluded);
  if (const auto layers = config.find("layers_to_transform")) {
    if (layers->is_array())
      for (const JsonValue& layer : layers->elements())
        lora.layers_to_transform.push_back(layer.integer(0));
    else
      lora.layers_to_transform.push_back(layers->integer(0));
  }
  if (const auto pattern = config.find("layers_pattern")) lora.layers_pattern = strings(*pattern);
}

/// "r=16" as {"r", "16"}; "dora" as {"dora", ""}.
std::pair<std::string_view, std::string_view> key_and_value(std::string_view part) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos) return {part, {}};
  return {part.substr(0, equals), part.substr(equals + 1)};
}

class OptionText {
 public:
  OptionText(std::string_view where, std::string_view model_type)
      : where_(where), model_type_(model_type) {}

  LoraConfig parse(std::string_view text) {
    while (!text.empty()) {
      const std::size_t comma = std::min(text.find(','), text.size());
      take(key_and_value(text.substr(0, comma)));
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
    if (!alpha_given_) lora_.alpha = 8;
    if (!lora_.all_linear && lora_.targets.empty()) take_usual_targets(model_type_, lora_);
    if (!lora_.all_linear && lora_.targets.empty() && lora_.target_parameters.empty())
      throw refusal(fmt::format("PEFT knows no targets for model_type {}", model_type_),
                    "add targets=all-linear or targets=NAME+NAME");
    return lora_;
  }

 private:
  using Part = std::pair<std::string_view, std::string_view>;

  Error refusal(std::string what, std::string way_out) const {
    return Error({.where = where_, .what = std::move(what), .way_out = std::move(way_out)});
  }

  double number(const Part& part, double min, double max) const {
    double value = 0;
    const char* const end = part.second.data() + part.second.size();
    const auto [stopped, error] = std::from_chars(part.second.data(), end, value);
    if (error == std::errc{} && stopped == end && value >= min && value <= max) return value;
    throw refusal(
        fmt::format("{}={} is no number from {} to {}", part.first, part.second, min, max),
        "for example r=16,alpha=32,targets=all-linear");
  }

  std::vector<std::string> names(std::string_view list) const {
    std::vector<std::string> all;
    while (!list.empty()) {
      const std::size_t plus = std::min(list.find('+'), list.size());
      if (plus > 0) all.emplace_back(list.substr(0, plus));
      list.remove_prefix(std::min(plus + 1, list.size()));
    }
    return all;
  }

  void take(const Part& part) {
    const auto& [key, value] = part;
    if (key == "r" || key == "rank") {
      const double rank = number(part, 1, max_rank);
      lora_.rank = static_cast<std::int64_t>(rank);
      if (static_cast<double>(lora_.rank) != rank)
        throw refusal(fmt::format("{}={} is not a whole number", key, value),
                      "give for example r=16");
    } else if (key == "alpha" || key == "lora_alpha") {
      lora_.alpha = number(part, 0, 1e9);
      alpha_given_ = true;
    } else if (key == "dropout" || key == "lora_dropout") {
      lora_.dropout = number(part, 0, 1);
    } else if (key == "targets" || key == "target_modules") {
      lora_.all_linear = is_all_linear(value);
      if (!lora_.all_linear) lora_.targets.names = names(value);
    } else if (key == "parameters" || key == "target_parameters") {
      lora_.target_parameters = names(value);
    } else if (key == "save" || key == "modules_to_save") {
      lora_.modules_to_save = names(value);
    } else if (key == "dora" && value.empty()) {
      lora_.dora = true;
    } else if (key == "rslora" && value.empty()) {
      lora_.rank_stabilized = true;
    } else {
      throw refusal(
          fmt::format("\"{}\" is no setting of an adapter", key),
          "known are r, alpha, dropout, targets, parameters, save, dora, rslora; or give an "
          "adapter_config.json");
    }
  }

  std::string where_, model_type_;
  LoraConfig lora_;
  bool alpha_given_ = false;
};

}  // namespace

LoraConfig read_lora_config(const JsonValue& config, std::string_view model_type) {
  refuse_other_kinds(config);
  LoraConfig lora;
  const auto type = config.find("peft_type");
  lora.adaptive_rank = type && type->string() == "ADALORA";
  check_layers(config);
  if (lora.adaptive_rank) {
    check_adalora(config);
    lora.rank = initial_rank_of_adalora;
  }
  if (const auto rank = config.find(lora.adaptive_rank ? "init_r" : "r"))
    lora.rank = rank->integer(1, max_rank);
  if (const auto alpha = config.find("lora_alpha")) lora.alpha = alpha->number();
  if (const auto dropout = config.find("lora_dropout")) lora.dropout = dropout->number(0, 1);
  read_targets(config, model_type, lora);
  if (const auto saved = config.find("modules_to_save")) lora.modules_to_save = strings(*saved);
  if (const auto bias = config.find("bias")) lora.bias = bias_of(*bias);
  lora.rank_stabilized = flag(config, "use_rslora");
  lora.dora = flag(config, "use_dora");
  lora.lora_bias = flag(config, "lora_bias");
  // AdaLoRA's own rank_pattern says which ranks are left; its layers have all of init_r.
  if (const auto ranks = config.find("rank_pattern"); ranks && !lora.adaptive_rank)
    for (const auto& [pattern, rank] : ranks->members())
      lora.rank_pattern.emplace_back(pattern, rank.integer(1, max_rank));
  if (const auto alphas = config.find("alpha_pattern"))
    for (const auto& [pattern, alpha] : alphas->members())
      lora.alpha_pattern.emplace_back(pattern, alpha.number());
  return lora;
}

LoraConfig parse_lora_config(std::string_view text, std::string_view where,
                             std::string_view model_type) {
  if (text.starts_with('{')) return read_lora_config(JsonValue::parse(text, where), model_type);
  const std::filesystem::path path(text);
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const bool names_file = text.ends_with(".json") || is_folder || text.find('/') != text.npos;
  if (!names_file) return OptionText(where, model_type).parse(text);
  return read_lora_config(JsonValue::read_file(is_folder ? path / "adapter_config.json" : path,
                                               DuplicateKeys::last_wins),
                          model_type);
}

}  // namespace shardscope
