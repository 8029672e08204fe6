// DTensor on one axis of a mesh: how a tensor lies on its ranks, and what changes that. Tensors
// here are the rank's own parts; whoever calls knows how each of them lies, and how its gradient
// will. Source: torch 2.15, torch/distributed/tensor (_api.py, _redistribute.py,
// placement_types.py).
#pragma once

#include <cstdint>

#include "core/pytorch/runtimes/common/functional.h"

namespace shardscope::eager::parallel {

/// torch.distributed.tensor.Placement.
struct Placement {
  enum class Kind : std::uint8_t { replicate, shard, partial } kind = Kind::replicate;
  int dim = 0;  ///< of shard; negative: from the end
  bool operator==(const Placement&) const = default;
};
inline constexpr Placement replicated{};
inline constexpr Placement partial{Placement::Kind::partial};
constexpr Placement shard(int dim) { return {Placement::Kind::shard, dim}; }

/// The part of a dimension that belongs to a rank: torch.chunk's.
std::int64_t shard_size(std::int64_t size, int ranks, int rank);

/// What a tensor lies like before and after, and the whole size of the dimension that is split.
struct Change {
  Placement from, to;
  std::int64_t whole = 0;  ///< of the dimension of the shard that is gathered
};
/// redistribute_local_tensor; the result may still be open.
Tensor redistribute_local(Session& s, const MeshAxisContext& axis, const Tensor& local,
                          const Change& change);

/// Tensors in 8 bits are waited for by the product, after its other operand was cast.
void wait_unless_float8(Session& s, const MeshAxisContext& axis, const Tensor& tensor);
/// DTensor.from_local(placement). `gradient`: how the gradient of the DTensor will lie.
Tensor from_local(Session& s, const MeshAxisContext& axis, const Tensor& local, Placement placement,
                  Placement gradient);
/// DTensor.redistribute. `gradient`: how the gradient of its result will lie.
Tensor redistribute(Session& s, const MeshAxisContext& axis, const Tensor& local,
                    const Change& change, Placement gradient);
/// DTensor.to_local().
Tensor to_local(Session& s, const Tensor& local);

}  // namespace shardscope::eager::parallel
