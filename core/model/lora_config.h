// LoRA as PEFT's LoraConfig describes it, and which modules of a model it finds.
#pragma once

#include <cstdint>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/model.h"

namespace shardscope {

/// Which biases train beside the adapters: none, all of the model's, or those of adapted layers.
enum class LoraBias : std::uint8_t { none, all, lora_only };

/// Names of modules: all that are one of `names` or end with ".NAME", or whole names that `pattern`
/// matches.
struct ModuleNames {
  std::vector<std::string> names;
  std::string pattern;  ///< empty: `names` decide
  bool empty() const { return names.empty() && pattern.empty(); }
  bool operator==(const ModuleNames&) const = default;
};

/// The fields of peft 0.21's LoraConfig that decide what is trained, saved for backward and kept.
struct LoraConfig {
  std::int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;
  /// Every linear layer but the output embedding; else `targets`.
  bool all_linear = false;
  /// The tool lists the last parts of their names itself, and gives PEFT the list.
  bool lists_linear = false;
  ModuleNames targets;
  bool usual_targets = false;  ///< none were given: `targets` are PEFT's for the model_type
  /// Parameters that get an adapter, such as experts': all whose names end so.
  std::vector<std::string> target_parameters;
  /// converted_for_transformers_5; false: PEFT before 0.19 took targets as they are.
  bool converts_targets = true;
  ModuleNames excluded;
  /// Copied, and trained whole.
  std::vector<std::string> modules_to_save;
  LoraBias bias = LoraBias::none;
  bool rank_stabilized = false;  ///< use_rslora: only the scale differs
  bool dora = false;
  bool adaptive_rank = false;  ///< AdaLoRA; `rank` is its init_r
  /// AdaLoRA's `ranknum` requires a gradient: of a base on the device, peft 0.21.2 tuners_utils.py,
  /// _mark_only_adapters_as_trainable. Before, parameters without "lora_" in their names did not.
  bool trains_rank_count = true;
  bool lora_bias = false;                         ///< of lora_B
  std::vector<std::int64_t> layers_to_transform;  ///< empty: all
  std::vector<std::string> layers_pattern;
  /// Another rank for modules whose name the pattern ends.
  std::vector<std::pair<std::string, std::int64_t>> rank_pattern;
  /// The same of lora_alpha.
  std::vector<std::pair<std::string, double>> alpha_pattern;
  /// get_peft_model(autocast_adapter_dtype=True): adapters of a half-precision base are float32.
  bool autocast_adapter_dtype = true;

  bool operator==(const LoraConfig&) const = default;
};

/// Answers which modules get an adapter, and of which rank. Source: peft/tuners/tuners_utils.py,
/// check_target_module_exists and _maybe_include_all_linear_layers; peft/utils/other.py,
/// get_pattern_key.
class LoraTargets {
 public:
  struct Candidate {
    std::string_view name;
    bool is_linear = false;  ///< torch.nn.Linear, or Conv1D
    bool is_output_embedding = false;
  };
  /// Error for a pattern that is no regular expression.
  explicit LoraTargets(const LoraConfig& config);
  bool has(const Candidate& module) const;
  std::int64_t rank_of(std::string_view module_name) const;
  /// What an update is multiplied by.
  double scaling_of(std::string_view module_name) const;

 private:
  bool is_excluded(std::string_view name) const;
  bool is_in_layers(std::string_view name) const;

  LoraConfig config_;
  std::optional<std::regex> targets_, excluded_;
  std::vector<std::regex> saved_;
  std::vector<std::pair<std::regex, std::int64_t>> ranks_;
  std::vector<std::pair<std::regex, double>> alphas_;
};

/// Whether modules_to_save copies this module. Source: peft/utils/other.py, _set_trainable.
bool is_saved_whole(const LoraConfig& config, std::string_view module_name);

/// target_modules for a model_type where none are given; empty: PEFT knows none. Source:
/// peft/utils/constants.py, TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.
std::vector<std::string> usual_lora_targets(std::string_view model_type);
/// The same of AdaLoRA. Source: peft 0.21.2, the same file,
/// TRANSFORMERS_MODELS_TO_ADALORA_TARGET_MODULES_MAPPING.
std::vector<std::string> usual_adalora_targets(std::string_view model_type);

}  // namespace shardscope
