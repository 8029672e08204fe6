// ZBV (arXiv:2401.10241, section 6), as PyTorch orders it.
#include <algorithm>

#include "core/pipeline/compute_order.h"

namespace shardscope {
namespace {

/// One of a rank's two stages: how far its forwards, backwards for inputs and for weights are.
struct ZbvStage {
  int stage = 0;
  int forwards = 0, inputs = 0, weights = 0;
};

class ZbvOrder {
 public:
  ZbvOrder(const PipelineSetup& setup, int rank)
      : setup_(setup),
        rank_(rank),
        // Fewer micro-batches than fill the pipeline: those too many are taken out at the end.
        micro_batches_(std::max(2 * setup.ranks - 1, setup.micro_batches)),
        down_{.stage = rank},
        up_{.stage = setup.stages() - 1 - rank},
        order_(static_cast<std::size_t>(rank)) {}

  ActionOrder built() && {
    warm_up();
    steady();
    cool_down();
    for (ActionSlot& slot : order_)
      if (!slot.idle() && slot.actions()[0].micro_batch >= setup_.micro_batches) slot = {};
    return std::move(order_);
  }

 private:
  void warm_up() {
    for (int i = 0; i < 2 * (setup_.ranks - rank_) - 1; ++i) forward(down_);
    for (int i = 0; i < rank_; ++i) {
      forward(up_);
      forward(down_);
    }
    for (int i = 0; i < setup_.ranks - rank_; ++i) {
      forward(up_);
      backward(up_);
    }
  }

  void steady() {
    while (up_.forwards < down_.forwards || down_.forwards < micro_batches_) {
      if (down_.forwards < micro_batches_) forward(down_);
      backward(down_);
      forward(up_);
      backward(up_);
    }
  }

  void cool_down() {
    for (int i = 0; i < rank_; ++i) {
      input(down_);
      input(up_);
    }
    for (int i = 0; i < setup_.ranks - rank_; ++i) {
      input(down_);
      weight(down_);
    }
    while (up_.weights < up_.inputs) weight(up_);
    while (down_.weights < down_.inputs) weight(down_);
  }

  void add(ActionKind kind, int stage, int micro_batch) {
    order_.emplace_back(Action{kind, stage, micro_batch});
  }
  void forward(ZbvStage& chunk) { add(ActionKind::forward, chunk.stage, chunk.forwards++); }
  void input(ZbvStage& chunk) { add(ActionKind::backward_input, chunk.stage, chunk.inputs++); }
  void weight(ZbvStage& chunk) { add(ActionKind::backward_weight, chunk.stage, chunk.weights++); }
  void backward(ZbvStage& chunk) {
    input(chunk);
    weight(chunk);
  }

  const PipelineSetup& setup_;
  int rank_;
  int micro_batches_;
  ZbvStage down_, up_;  ///< the stage on the way to the last rank, and that on the way back
  ActionOrder order_;
};

}  // namespace

ActionOrder zbv_order(const PipelineSetup& setup, int rank) {
  return ZbvOrder(setup, rank).built();
}

}  // namespace shardscope
