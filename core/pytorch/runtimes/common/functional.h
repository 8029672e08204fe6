// torch.distributed._functional_collectives: collectives whose results are waited for when they
// are first used. Source: torch 2.15, _functional_collectives.py and
// torch/csrc/distributed/c10d/Functional.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::eager::parallel {

/// Results that nobody has waited for yet: AsyncCollectiveTensor. What a collective reads is kept
/// until then.
class Pending final : public Observer {
 public:
  /// wait_tensor(), if the tensor is the result of a collective that is still open.
  void wait(Session& s, const Tensor& tensor);
  /// The same when the next result of an operator is asked for, but for those of a forward that a
  /// checkpoint runs again. The session has to be observed.
  void wait_later(const Tensor& tensor);
  void add(const Tensor& result, WorkId work, Tensor input);

  void on_storage_allocated(Session& s, StorageImpl& storage) override;

 private:
  void wait_for(Session& s, std::uint64_t storage);

  struct Open {
    WorkId work;
    Tensor input;
  };
  std::map<std::uint64_t, Open> open_;  // by storage; looked up, never walked
  std::optional<std::uint64_t> later_;  ///< a storage
};

/// An axis of ranks, and the results on it that are still open.
struct MeshAxisContext {
  const ProcessGroup* group = nullptr;
  Pending* pending = nullptr;
};

/// Sums, or takes the largest of, all ranks' tensors, in a new one.
Tensor all_reduce(Session& s, Pending& pending, const ProcessGroup& group, const Tensor& input,
                  std::string_view reduction = "sum");
/// All parts one after the other along `dim`: gathered along dimension 0, and copied into place
/// where `dim` is another and rows lie between.
Tensor all_gather(Session& s, Pending& pending, const ProcessGroup& group, const Tensor& input,
                  int dim);
/// This rank's part along `dim` of the sum.
Tensor reduce_scatter(Session& s, Pending& pending, const ProcessGroup& group, const Tensor& input,
                      int dim);
/// all_to_all_single with equal parts along dimension 0.
Tensor all_to_all(Session& s, Pending& pending, const ProcessGroup& group, const Tensor& input);
/// _dtensor.shard_dim_alltoall: sharded along `from` before, along `to` after; nobody else waits.
Tensor shard_dim_all_to_all(Session& s, const ProcessGroup& group, const Tensor& input, int from,
                            int to);

}  // namespace shardscope::eager::parallel
