// DoRA: a magnitude for each output beside LoRA's update. Source: peft 0.21.2,
// tuners/lora/dora.py and variants.py.
#pragma once

#include <memory>

#include "core/pytorch/engine/adapters/quantized.h"
#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

struct DoraInit {
  Module& layer;  ///< the LoRA layer that it will belong to
  const Module& base;
  std::shared_ptr<const QuantizedLayer> quantized;  ///< null: the base is not quantised
  Tensor a, b;                                      ///< weights of lora_A and lora_B
  bool turned = false;                              ///< fan_in_fan_out: the weight is in x out
};

/// DoraLinearLayer with its magnitude, the norm of each row of the weight and the update.
std::shared_ptr<Module> dora_layer(Session& s, const DoraInit& init);

/// get_weight_norm: of each row of the weight with the update.
Tensor dora_norm(Session& s, Tensor weight, const Tensor& update);
/// peft/utils/other.py, transpose, where `turned`: of a parameter a new one, which requires grad.
Tensor turned_weight(Session& s, const Tensor& weight, bool turned, bool is_parameter);
/// DoraEmbeddingLayer with its magnitude, one a column of `weight`; without a forward.
std::shared_ptr<Module> dora_magnitude(Session& s, const Tensor& weight, const Tensor& a,
                                       const Tensor& b);

/// DoraLinearVariant.forward: `result` of the base layer and what the magnitude makes of it.
Tensor dora_result(Session& s, Module& layer, Tensor x, Tensor result);

}  // namespace shardscope::eager
