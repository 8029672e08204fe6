// What a rank of Megatron-LM holds: states of its parameters, and what its layers keep of a
// micro-batch for the backward.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/quantities.h"
#include "core/config/megatron/settings.h"

namespace shardscope::megatron {

/// Elements of parameters that one rank of a stage holds.
struct HeldParameters {
  std::int64_t shared = 0;   ///< of all but experts
  std::int64_t experts = 0;  ///< whose gradients are reduced in groups of their own
  std::int64_t linear = 0;   ///< of them all, those of linear layers in blocks
  /// Beside them, where they do not train: of adapters, and of copies that do.
  std::int64_t adapters = 0, expert_adapters = 0;
};
/// `stage` counts over all ranks. Embedding and output layer are on the first and the last stage,
/// both of them where they are tied. Source: Megatron-LM core/models/gpt/gpt_model.py,
/// core/transformer; theoretical_memory_usage.py.
HeldParameters held_parameters(const Settings& settings, int stage);

/// A tensor that a layer keeps from its forward to its backward.
struct KeptTensor {
  std::string_view name;  ///< "input of the norm before attention"
  Bytes bytes;
  bool of_core_attention = false;  ///< that selective recomputation does not keep
};
/// Of one layer and micro-batch on one rank, where nothing is run again, in the order of its
/// forward. `expert`: of a layer with experts. Source: arXiv:2205.05198, sections 4.1 and 4.2,
/// whose 34 s b h / t + 5 a s^2 b / t it is for GPT under sequence parallelism; beyond it
/// Megatron-LM core/transformer (attention.py: rotated queries and keys are new tensors, values
/// stay a view of the product's output; mlp.py; moe), Transformer Engine (8-bit inputs of linear
/// layers).
std::vector<KeptTensor> kept_of_layer(const Settings& settings, bool expert);

/// What a stage holds of one micro-batch, and more while it computes.
struct ChunkMemory {
  Bytes kept;         ///< of its layers, from forward to backward
  Bytes head;         ///< of final norm, output layer and loss, until they have run backward
  Bytes in_forward;   ///< beside these, while it runs forward
  Bytes in_backward;  ///< while layers run backward: their gradients, and what is run again
  Bytes in_head;      ///< while the output layer runs backward
};
ChunkMemory chunk_memory(const Settings& settings, int stage);

/// Gradients of weights that nobody reads, one of each shape that linear layers and the output
/// layer of a rank have, from the first backward on: autograd is given them where products add the
/// true ones up themselves. Source: Megatron-LM core/tensor_parallel/layers.py
/// (grad_added_to_main_grad), Transformer Engine pytorch/module/base.py (get_dummy_wgrad). `rank`:
/// of the pipeline.
Bytes unread_gradients(const Settings& settings, int rank);

/// States of a rank's parameters. Source: Megatron-LM docs, dist_optimizer.md: of 16-bit parameters
/// with gradients in float32 18 bytes an element, with the distributed optimizer 6 + 12 / d.
struct StateBytes {
  Bytes parameters, gradients, optimizer;
  Bytes eight_bits;  ///< weights of linear layers and their transposes in 8 bits
};
/// `rank`: of the pipeline.
StateBytes state_bytes(const Settings& settings, int rank);

}  // namespace shardscope::megatron
