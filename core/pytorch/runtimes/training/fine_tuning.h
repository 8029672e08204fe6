// A model that is loaded, quantised and given adapters before a runtime wraps it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/format/json_reader.h"
#include "core/model/lora_config.h"
#include "core/model/model.h"
#include "core/model/quantization.h"
#include "core/pytorch/engine/adapters/litgpt.h"
#include "core/pytorch/engine/adapters/litgpt_lora.h"
#include "core/pytorch/engine/adapters/pretrained.h"
#include "core/pytorch/engine/adapters/quantized.h"
#include "core/pytorch/engine/adapters/unsloth.h"
#include "core/pytorch/engine/checkpoint.h"
#include "core/pytorch/engine/models/make_module.h"

namespace shardscope::eager {

/// What is done before the runtime's turn, in this order.
struct FineTuningSetup {
  std::shared_ptr<const shardscope::Model> base;  ///< in the dtypes that it is loaded in
  /// from_pretrained with device_map: straight to the device. false: made as TrainingSetup says.
  bool from_pretrained = true;
  /// With from_pretrained: device_map="auto", for which accelerate looks at the device first.
  bool automatic_map = false;
  /// With from_pretrained: a weight is quantised on the device and goes back to the host, where all
  /// others stay, until the runtime takes them. transformers under FSDP with
  /// cpu_ram_efficient_loading, and under ZeRO-3.
  bool to_host = false;
  /// set_fine_tuning sets `to_host` as transformers 4 has it. transformers 5 leaves a quantised
  /// weight on the device. Source: 4.51 modeling_utils.py, _load_state_dict_into_meta_model; 5.24
  /// quantizer_bnb_4bit.py, update_device_map.
  bool loads_as_transformers_4 = false;
  WarmUp warm_up = WarmUp::by_parameter;  ///< with from_pretrained
  Bytes free_memory = {};      ///< of the device before loading, which bounds warm_up; 0: unknown
  bool empties_cache = false;  ///< torch.cuda.empty_cache() after loading
  std::optional<Quantization> quantization = {};  ///< needs from_pretrained
  bool prepares_for_kbit = false;                 ///< prepare_model_for_kbit_training
  /// axolotl: norms, embedding and head become float32 before prepares_for_kbit, and what the base
  /// is made in after it. The cache is emptied after the adapters. Source: axolotl 067b021c,
  /// loaders/model.py, _configure_embedding_dtypes, _apply_post_lora_load_setup.
  bool casts_ends_and_back = false;
  /// gradient_checkpointing_enable: layers whose forward is a checkpoint, by name in the base
  /// model.
  std::vector<std::string> checkpointed_layers = {};
  CheckpointOptions checkpointing = {};
  bool input_gradients = false;  ///< enable_input_require_grads
  std::optional<LoraConfig> adapter = {};
  std::optional<LitgptAdapter> litgpt_adapter = {};  ///< in place of `adapter`
  std::optional<LitgptLora> litgpt_lora = {};        ///< the same
  std::optional<Dtype> trainable_dtype = {};         ///< of what trains after all that
  bool keeps_magnitudes = false;                     ///< but for DoRA's magnitudes
  /// Unsloth's FastLanguageModel loads and adapts; its checkpoints go around `checkpointed_layers`.
  std::optional<UnslothSettings> unsloth = {};
};

/// Moments of a training's set-up at which a caller may look at what there is.
enum class SetupMoment : std::uint8_t { loaded, adapted, wrapped };
using SetupProbe = std::function<void(SetupMoment)>;

/// The module that a runtime wraps.
struct FineTuned {
  std::shared_ptr<Module> module;
  QuantizedLayers quantized;
};

/// Loads and adapts. `maker` is where the empty model is made: the meta device under
/// from_pretrained. It must outlive the module.
struct FineTuningInput {
  const JsonValue& config;
  const ModelSettings& settings;
  const FineTuningSetup& setup;
};
FineTuned fine_tuned(Session& s, Session& maker, const FineTuningInput& input,
                     const SetupProbe& probe);

/// The model as it is after that: what wrapping policies and plans see. Nothing is allocated.
shardscope::Model fine_tuned_model(const FineTuningInput& input);

}  // namespace shardscope::eager
