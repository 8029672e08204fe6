// from_pretrained of transformers 5.23 with device_map: weights go one by one to the device, and
// are quantised there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/pytorch/engine/adapters/quantized.h"
#include "core/pytorch/engine/models/make_module.h"

namespace shardscope::eager {

/// A model that is on its device.
struct Pretrained {
  std::shared_ptr<Module> module;
  QuantizedLayers quantized;
};

/// modeling_utils.py, caching_allocator_warmup: one block that is asked for before the weights
/// come, and let go at once.
enum class WarmUp : std::uint8_t {
  none,          ///< transformers before 4.50, of March 2025
  with_tied,     ///< 4.51: as `halved`, and a tied head counts once more
  halved,        ///< 4.57: half of a base in 16 bits where the model is to be quantised
  by_parameter,  ///< 5: what every weight will need
};

/// `meta` is a session on the meta device in which the empty model is made first; it must outlive
/// the model. Parameters keep what `model` says of their dtype and training.
struct PretrainedRequest {
  const shardscope::Model& model;
  const JsonValue& config;
  const ModelSettings& settings;
  std::optional<Quantization> quantization;
  bool automatic_map = false;  ///< FineTuningSetup::automatic_map
  bool to_host = false;        ///< FineTuningSetup::to_host
  WarmUp warm_up = WarmUp::by_parameter;
  Bytes free_memory = {};  ///< FineTuningSetup::free_memory
};
Pretrained load_pretrained(Session& s, Session& meta, const PretrainedRequest& request);

/// peft.prepare_model_for_kbit_training: everything frozen, and what is not quantised in float32.
void prepare_for_kbit_training(Session& s, Module& model, const QuantizedLayers& quantized);

}  // namespace shardscope::eager
