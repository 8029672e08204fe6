// PEFT's LoRA on a model: which modules are replaced, what the replacements run, and what trains.
#pragma once

#include <memory>
#include <string_view>

#include "core/model/lora_config.h"
#include "core/pytorch/engine/adapters/quantized.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

/// What get_peft_model is given beside the config.
struct AdapterRequest {
  LoraConfig config;
  /// Layers of the model that bitsandbytes replaced.
  const QuantizedLayers& quantized;
  /// model_type; empty: targets are taken as they are (transformers 4).
  std::string_view converted_family = {};
  /// Own name of the module that makes logits: all-linear leaves it out.
  std::string_view output_embedding = "lm_head";
};

/// get_peft_model(model, config): adapters on the modules that the config names, everything else
/// frozen. Returns the PeftModel around `model`; modules are named as in its tree. Error where PEFT
/// raises, and for modules whose adapters are not ported. Source: peft 0.21.2.
std::shared_ptr<Module> put_adapter(Session& s, const std::shared_ptr<Module>& model,
                                    const AdapterRequest& request);

/// torch.nn.Linear, made on the host and moved to `like`.
std::shared_ptr<Module> linear_of(Session& s, std::int64_t in, std::int64_t out, bool bias,
                                  Like like);

/// Names and numbers modules as they stand in the tree now.
void name_modules(Module& root);

/// enable_input_require_grads(): the input embedding's output becomes a leaf that requires grad.
void require_input_gradients(Module& input_embedding);

/// The weight of lora_A or lora_B. One that a runtime has put around an adapter hands on what it is
/// asked for (FullyShardedDataParallel.__getattr__).
Tensor adapter_weight(const Module& adapter);

/// The adapter's own modules of a LoRA layer, as forwards use them.
struct LoraParts {
  explicit LoraParts(Module& layer);
  Module& base;
  Module& dropout;
  Module& a;
  Module& b;
  bool drops;  ///< in training
};

}  // namespace shardscope::eager
