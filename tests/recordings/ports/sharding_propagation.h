// DTensor's sharding propagation: the operators that it runs on tensors without memory.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/pytorch/engine/observer.h"
#include "core/pytorch/runtimes/fsdp2/fully_shard.h"

namespace shardscope::eager::fsdp2 {

/// The first time that an operator meets DTensors of these shapes, it runs before on fake tensors
/// of the global shapes, made by one aten.empty_strided each; later the result is looked up. They
/// take no memory, but a dispatch mode counts them. Source: torch 2.15,
/// torch/distributed/tensor/_sharding_prop.py,
/// ShardingPropagator._propagate_tensor_meta_non_cached.
class ShardingPropagation final : public Watcher {
 public:
  /// Watches it from now on: parameters resharded to a smaller mesh are DTensors, too.
  explicit ShardingPropagation(FullySharded& sharded);

  /// What follows works on sharded parameters and their gradients, as they are now: clipping, a
  /// step, zero_grad.
  void begin_updates();
  void end_updates() { in_updates_ = false; }
  /// How many fake operators run before this one.
  std::int64_t operators_before(const OperatorCall& call);

  void on_enter(Session& s, const Visit& visit) override;
  void on_leave(Session& s, const Visit& visit) override;

 private:
  /// A tensor by where it lies: storage, offset, local sizes. Storages are never numbered twice.
  using Place = std::vector<std::int64_t>;
  using Sizes = std::vector<std::int64_t>;

  static Place place_of(const TensorImpl& tensor);
  std::int64_t before_update(const OperatorCall& call);
  /// nn.Parameter of a resharded parameter detaches it.
  std::int64_t before_reshard(const OperatorCall& call);
  void add(const Tensor& tensor, const Dims& global_sizes);
  void add_outputs(const OperatorCall& call);

  FullySharded& sharded_;
  bool in_updates_ = false;
  const ParameterGroup* resharding_ = nullptr;
  std::size_t next_ = 0;  ///< of its parameters
  std::map<Place, Sizes> global_sizes_;
  std::set<std::string> known_;  ///< schemas
};

}  // namespace shardscope::eager::fsdp2
