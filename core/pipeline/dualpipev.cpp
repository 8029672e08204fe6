// DualPipeV (after arXiv:2412.19437), as PyTorch orders it.
#include <deque>

#include "core/pipeline/compute_order.h"

namespace shardscope {
namespace {

struct DualPipeVStage {
  int stage = 0;
  int forwards = 0, backwards = 0;
};

class DualPipeVOrder {
 public:
  DualPipeVOrder(const PipelineSetup& setup, int rank)
      : ranks_(setup.ranks),
        rank_(rank),
        micro_batches_(setup.micro_batches),
        down_{.stage = rank},
        up_{.stage = setup.stages() - 1 - rank} {}

  ActionOrder built() && {
    warm_up();
    steady();
    cool_down();
    return std::move(order_);
  }

 private:
  int hops() const { return ranks_ - rank_ - 1; }  ///< to the last rank

  void warm_up() {
    for (int i = 0; i < 2 * hops(); ++i) forward(down_);
    for (int i = 0; i < rank_ + 1; ++i) {
      forward(down_);
      forward(up_);
    }
    for (int i = 0; i < hops(); ++i) {
      input(up_);
      pending_weight();
      forward(up_);
    }
  }

  void steady() {
    const int rounds = micro_batches_ - 2 * ranks_ + rank_ + 1;
    for (int i = 0; i < rounds; ++i) {
      if (i == 0 && rank_ == ranks_ - 1) {
        forward(down_);
        backward(up_);
      } else {
        overlap(down_, up_);
      }
      overlap(up_, down_);
    }
    for (int i = 0; i < hops(); ++i) {
      backward(up_);
      overlap(up_, down_);
    }
  }

  void cool_down() {
    bool split = false;  // the second half of the backwards is apart
    for (int i = 0; i < rank_ + 1; ++i) {
      const bool half = i == (rank_ + 1) / 2;
      split = split || (half && rank_ % 2 == 1);
      half_backward(up_, split);
      split = split || (half && rank_ % 2 == 0);
      half_backward(down_, split);
    }
    for (int i = 0; i < hops(); ++i) {
      pending_weight();
      half_backward(down_, split);
    }
    for (int i = 0; i < rank_ + 1; ++i) pending_weight();
  }

  void forward(DualPipeVStage& chunk) {
    order_.emplace_back(Action{ActionKind::forward, chunk.stage, chunk.forwards++});
  }
  void backward(DualPipeVStage& chunk) {
    order_.emplace_back(Action{ActionKind::full_backward, chunk.stage, chunk.backwards++});
  }
  void input(DualPipeVStage& chunk) {
    weights_.push_back({ActionKind::backward_weight, chunk.stage, chunk.backwards});
    order_.emplace_back(Action{ActionKind::backward_input, chunk.stage, chunk.backwards++});
  }
  void half_backward(DualPipeVStage& chunk, bool split) { split ? input(chunk) : backward(chunk); }
  void overlap(DualPipeVStage& ahead, DualPipeVStage& back) {
    order_.emplace_back(Action{ActionKind::forward, ahead.stage, ahead.forwards++},
                        Action{ActionKind::full_backward, back.stage, back.backwards++});
  }
  void pending_weight() {
    if (weights_.empty()) return;
    order_.emplace_back(weights_.front());
    weights_.pop_front();
  }

  int ranks_, rank_, micro_batches_;
  DualPipeVStage down_, up_;    ///< the stage on the way to the last rank, and that on the way back
  std::deque<Action> weights_;  ///< still to come
  ActionOrder order_;
};

}  // namespace

ActionOrder dualpipev_order(const PipelineSetup& setup, int rank) {
  return DualPipeVOrder(setup, rank).built();
}

}  // namespace shardscope
