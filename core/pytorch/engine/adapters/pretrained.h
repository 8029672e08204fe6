// from_pretrained of transformers 5.23 with device_map: weights go one by one to the device, and
// are quantised there.
#pragma once

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

/// `meta` is a session on the meta device in which the empty model is made first; it must outlive
/// the model. Parameters keep what `model` says of their dtype and training.
struct PretrainedRequest {
  const shardscope::Model& model;
  const JsonValue& config;
  const ModelSettings& settings;
  std::optional<Quantization> quantization;
  bool automatic_map = false;  ///< FineTuningSetup::automatic_map
  bool to_host = false;        ///< FineTuningSetup::to_host
  bool warms_up = true;        ///< FineTuningSetup::warms_up
};
Pretrained load_pretrained(Session& s, Session& meta, const PretrainedRequest& request);

/// peft.prepare_model_for_kbit_training: everything frozen, and what is not quantised in float32.
void prepare_for_kbit_training(Session& s, Module& model, const QuantizedLayers& quantized);

}  // namespace shardscope::eager
