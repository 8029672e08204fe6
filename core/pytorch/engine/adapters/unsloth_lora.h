// Unsloth's functions of adapted linear layers, which keep less for backward than PEFT's modules.
// Source: unsloth 2026.8.11, kernels/fast_lora.py and kernels/utils.py.
#pragma once

#include <memory>

#include "core/pytorch/engine/adapters/quantized.h"
#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/engine/tensor.h"

namespace shardscope::eager {

/// get_lora_parameters of a layer: its weight (packed, where it is quantised) and its adapter.
struct AdaptedLinear {
  Tensor weight;
  std::shared_ptr<const QuantizedLayer> quantized;  ///< null: the weight is as it was
  Tensor a, b;                                      ///< rank x in, out x rank
};

/// LoRA_W. `buffers` are WEIGHT_BUFFERS and ABSMAX_BUFFERS, which forwards dequantise into.
Tensor unsloth_lora(Session& s, const Tensor& x, const AdaptedLinear& linear,
                    const std::shared_ptr<DequantizeBuffers>& buffers);

struct AdaptedProjections {
  AdaptedLinear query, key, value;
};
/// LoRA_QKV: x (B, T, H) to {query, key, value}. The gradient of x overwrites x.
Tensors unsloth_lora_qkv(Session& s, const Tensor& x, const AdaptedProjections& projections,
                         const std::shared_ptr<DequantizeBuffers>& buffers);

struct AdaptedFeedForward {
  AdaptedLinear gate, up, down;
};
/// LoRA_MLP with SwiGLU. Gradients overwrite what is kept.
Tensor unsloth_lora_mlp(Session& s, const Tensor& x, const AdaptedFeedForward& layers,
                        const std::shared_ptr<DequantizeBuffers>& buffers);

}  // namespace shardscope::eager
