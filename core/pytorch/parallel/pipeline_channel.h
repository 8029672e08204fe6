// Sends and receives among the ranks of a pipeline. Source: torch 2.15, pipelining/schedules.py,
// _p2p.py.
#pragma once

#include <utility>
#include <vector>

#include "core/pytorch/engine/session.h"
#include "core/pytorch/engine/tensor.h"
#include "core/pytorch/runtimes/common/process_group.h"

namespace shardscope::eager::parallel {

/// Pairs of ranks that talk, in rounds of pairs that have no rank in common. Example: stages on
/// ranks 0, 1, 2, 3: {0,1},{2,3}, then {1,2}.
std::vector<std::vector<std::pair<int, int>>> connection_rounds(
    const std::vector<int>& rank_of_stage);

/// P2POp of a tensor.
struct Transfer {
  Tensor tensor;
  int peer = 0;
  bool sends = false;
};

/// Transfers that are posted at once, one ncclGroup (_batch_p2p).
struct TransferBatch {
  std::vector<Transfer> transfers;
  std::vector<WorkId> works;  ///< of those that are posted
};

class PipelineChannel {
 public:
  /// `group` is of the pipeline's ranks.
  PipelineChannel(Session& s, const ProcessGroup& group) : s_(s), group_(group) {}

  int rank() const { return group_.rank; }
  /// Once: do all ranks know their shapes, then one number between each two that talk.
  void connect(const std::vector<int>& rank_of_stage);
  void post(TransferBatch& batch);
  void post_send(TransferBatch& batch, const Tensor& tensor, int peer);
  /// Posts what is not posted yet, and waits for all.
  void wait(TransferBatch& batch);

 private:
  WorkId issue(const Transfer& transfer);
  void exchange_number(const Tensor& number, int peer, bool sends);

  Session& s_;
  const ProcessGroup& group_;
  bool connected_ = false;
};

}  // namespace shardscope::eager::parallel
