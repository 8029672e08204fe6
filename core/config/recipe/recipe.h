// The file of a training tool: model, adapter, quantised base, batch and strategy in one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/config/values/config_value.h"
#include "core/config/values/finding.h"
#include "core/schedule/strategy.h"

namespace shardscope {

/// Tools whose files are read here.
enum class RecipeTool : std::uint8_t {
  trl,
  axolotl,
  llama_factory,
  torchtune,
  litgpt,
  ms_swift,
  torchtitan
};

/// What one of the tools makes of its file. A field that is not set: the file does not say it, and
/// the tool has no default for it.
struct Recipe {
  std::string model;  ///< a path, or a name on the Hub
  /// What transformers' Trainer is told: a dict; None under tools with a training loop of their
  /// own.
  ConfigValue training_arguments;
  ConfigValue adapter;             ///< LoraConfig's arguments: a dict; None: the whole model trains
  std::string quantization;        ///< as --quantization takes it; empty: none
  bool prepares_for_kbit = false;  ///< prepare_model_for_kbit_training
  bool casts_ends_and_back = false;      ///< eager::FineTuningSetup::casts_ends_and_back
  std::optional<Dtype> base_dtype;       ///< that the weights are loaded in
  bool keeps_magnitudes = false;         ///< trainable_dtype is not for DoRA's magnitudes
  bool loads_on_host = false;            ///< from_pretrained without device_map, even on one device
  std::optional<Dtype> trainable_dtype;  ///< that the tool casts to what trains
  std::optional<std::int64_t> length;    ///< tokens of a sequence
  std::string attention;                 ///< as --attention takes it; empty: the default
  std::string liger;                     ///< as --liger takes it; empty: none
  std::string loss;                      ///< as --loss takes it; empty: the model's
  std::string reference;                 ///< as --reference takes it; empty: the default
  std::optional<std::int64_t> prompt;    ///< as --prompt takes it
  /// The sequences of a micro-batch lie one after the other in a single row.
  bool flattens = false;
  /// The model types that the tool turns Liger on for; empty: all that Liger has.
  std::vector<std::string_view> liger_families = {};
  /// Where several ranks run under it, the tool's checkpoints are not reentrant whatever the
  /// arguments say; none: they say it.
  std::optional<Runtime> not_reentrant_under = {};
  /// The model types whose checkpoints the tool never makes reentrant.
  std::vector<std::string_view> not_reentrant_families = {};

  /// As --allocator takes it: what the tool sets in the environment; empty: nothing.
  std::string allocator;
  bool allocator_of_several = false;  ///< only where it starts several processes by itself

  /// Of tools with a training loop of their own.
  struct OwnLoop {
    std::string runtime;  ///< as --runtime takes it
    std::string precision;
    std::int64_t batch = 1;
    std::int64_t micro_batches = 1;
    /// Of a step of all ranks, which then says the micro-batches; 0: it is not given.
    std::int64_t sequences = 0;
    std::string optimizer;
    std::string implementation;  ///< of torch.optim; empty: bitsandbytes'
    double clip = 0;
    std::string checkpointing;  ///< as --checkpointing takes it; empty: none
    bool steps_in_backward = false;
    bool offloads_activations = false;
    // Of torchtitan; empty: the default.
    std::string mesh;                                ///< as --mesh takes it
    std::string strategy;                            ///< as --strategy takes it
    std::string compile;                             ///< as --compile takes it
    std::string float8;                              ///< as --float8 takes it
    std::string layers;                              ///< as --layers takes it
    std::string pipeline_schedule, pipeline_stages;  ///< as these options take them
  };
  std::optional<OwnLoop> own_loop;
  std::optional<std::int64_t> world;  ///< where the file says it

  std::vector<Finding> findings;     ///< sorted by line
  std::vector<std::string> assumed;  ///< defaults of the tool that were taken, and what is left out
};

/// Sets gradient_checkpointing_kwargs.use_reentrant of the Trainer's arguments, and nothing else.
void set_reentrant(ConfigValue& arguments, bool reentrant);

/// Whether the argument is a file of DeepSpeed whose name says stage 3: "ds_z3_config.json".
bool names_zero3(const ConfigValue& deepspeed);

/// Throws Error for the first finding that is an error: what the tool raises for.
void refuse_errors(const Recipe& recipe);

/// Which of the tools a file is for, by keys that only this tool has.
std::optional<RecipeTool> recipe_tool(const ConfigValue& value);
/// The dict of the file: YAML, TOML, or the command line of ms-swift, TRL or LLaMA-Factory in a
/// script.
/// Throws Error with file and line.
ConfigValue recipe_value(std::string_view text, const std::string& file);

/// Throws Error with file, line and key where the tool refuses a value, and where the training is
/// of a kind that is not modelled.
Recipe read_recipe(RecipeTool tool, std::string_view text, const std::string& file);

}  // namespace shardscope
