// Unsloth's gradient checkpointing (use_gradient_checkpointing="unsloth"): a layer's input waits on
// the host. Source: unsloth_zoo 2026.8.11, gradient_checkpointing.py, UnslothCheckpointFunction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/pytorch/engine/checkpoint.h"
#include "core/pytorch/engine/dispatch.h"

namespace shardscope::eager {

/// The buffers that all layers of a process share. Inputs of more than 2 MiB go to pinned host
/// memory on a stream of their own, but for that of the last layer from the second forward on; they
/// come back into one of two buffers on the device.
class UnslothCheckpoints {
 public:
  /// initialize_unsloth_gradient_checkpointing(dtype).
  UnslothCheckpoints(Session& s, Dtype dtype);

  /// checkpoint(function, *arguments): reentrant, whatever is asked for.
  Tensors run(Session& s, const CheckpointedFunction& function, const Arguments& arguments);

 private:
  struct Place {
    std::size_t host = 0;
    int slot = 0;
    std::int64_t elements = 0;
    Dims sizes;
  };
  bool offloads(const Tensor& input);
  Place offload(Session& s, const Tensor& input);
  Tensor brought_back(Session& s, const Place& place);
  void grow(Session& s, Tensor& buffer, std::int64_t elements) const;

  Like kind_;
  Tensors host_;
  std::array<Tensor, 2> device_;
  StreamId side_;
  bool doubles_ = false, first_pass_ = true, after_backward_ = true;
  std::int64_t last_call_ = 0, call_ = 0;
  std::size_t next_host_ = 0;
  int next_slot_ = 0;
};

/// Puts such a checkpoint around a layer's forward, in training.
void unsloth_checkpoint_forward(Module& layer, std::shared_ptr<UnslothCheckpoints> checkpoints);

}  // namespace shardscope::eager
