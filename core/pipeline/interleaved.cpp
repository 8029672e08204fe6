// Interleaved 1F1B (arXiv:2104.04473) and ZB1P (arXiv:2401.10241), as PyTorch orders them.
#include <algorithm>

#include "core/pipeline/compute_order.h"

namespace shardscope {
namespace {

class InterleavedOrder {
 public:
  InterleavedOrder(const PipelineSetup& setup, int rank)
      : setup_(setup),
        rank_(rank),
        zero_bubble_(setup.kind == PipelineScheduleKind::interleaved_zero_bubble),
        round_(rounds_of(setup).micro_batches),
        chunks_(setup.stages_per_rank * setup.micro_batches),
        warm_up_(warm_up()),
        next_forward_(static_cast<std::size_t>(setup.stages()), 0),
        next_backward_(next_forward_),
        next_weight_(next_forward_),
        order_(static_cast<std::size_t>(rank)) {}

  ActionOrder built() && {
    for (int place = 0; place < warm_up_; ++place) add_forward(place);
    // PyTorch waits here as the last step of the warm-up: without one it does not.
    if (warm_up_ > 0) idle(places_until_first_backward());
    for (int place = warm_up_; place < chunks_ + warm_up_; ++place) {
      if (place < chunks_) {
        add_forward(place);
      } else if (!zero_bubble_) {
        idle(1);
      }
      add_backward(place);
      if (zero_bubble_ && place - warm_up_ >= rank_) add_weight();
    }
    while (zero_bubble_ && weights_ < chunks_) add_weight();
    return std::move(order_);
  }

 private:
  /// Forwards before the first backward.
  int warm_up() const {
    const int hops = setup_.ranks - 1 - rank_;
    const int last_rank = (setup_.stages_per_rank - 1) * round_;
    return std::min(last_rank + (zero_bubble_ ? 1 : 2) * hops, chunks_);
  }

  /// The first backward of a rank starts when it has come down from the last stage.
  int places_until_first_backward() const {
    const int hops = setup_.ranks - 1 - rank_;
    if (zero_bubble_) return hops;
    return setup_.stages() + 2 * hops - (warm_up_ + rank_);
  }

  int local_stage(int place) const { return (place / round_) % setup_.stages_per_rank; }
  int forward_stage(int place) const { return local_stage(place) * setup_.ranks + rank_; }
  int backward_stage(int place) const {
    const int local = setup_.stages_per_rank - 1 - local_stage(place - warm_up_);
    return local * setup_.ranks + rank_;
  }

  void idle(int places) {
    order_.resize(order_.size() + static_cast<std::size_t>(std::max(0, places)));
  }

  void add(ActionKind kind, int stage, std::vector<int>& next) {
    order_.emplace_back(Action{kind, stage, next[static_cast<std::size_t>(stage)]++});
  }
  void add_forward(int place) { add(ActionKind::forward, forward_stage(place), next_forward_); }
  void add_backward(int place) {
    add(zero_bubble_ ? ActionKind::backward_input : ActionKind::full_backward,
        backward_stage(place), next_backward_);
  }
  /// The oldest backward for inputs whose weights are still to come.
  void add_weight() {
    add(ActionKind::backward_weight, backward_stage(warm_up_ + weights_++), next_weight_);
  }

  const PipelineSetup& setup_;
  int rank_;
  bool zero_bubble_;
  int round_;   ///< micro-batches of a round
  int chunks_;  ///< forwards of this rank
  int warm_up_;
  int weights_ = 0;                                              ///< added
  std::vector<int> next_forward_, next_backward_, next_weight_;  ///< micro-batch, by stage
  ActionOrder order_;
};

}  // namespace

ActionOrder interleaved_order(const PipelineSetup& setup, int rank) {
  return InterleavedOrder(setup, rank).built();
}

}  // namespace shardscope
