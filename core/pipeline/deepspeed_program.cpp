#include "core/pipeline/deepspeed_program.h"

namespace shardscope {
namespace {

class TrainSchedule {
 public:
  TrainSchedule(int stage, int stages, int micro_batches)
      : stage_(stage), stages_(stages), micro_batches_(micro_batches) {}

  PipelineProgram program() && {
    int before = -1;  // micro-batch of the step before
    for (int step = 0; step < 2 * (micro_batches_ + stages_ - 1); ++step) {
      const bool forward = step % 2 == stage_ % 2;
      const int micro_batch = forward ? forward_of(step) : backward_of(step);
      if (forward) {
        move(ActionKind::send_backward, before);
        move(ActionKind::receive_forward, micro_batch);
      } else {
        move(ActionKind::receive_backward, micro_batch);
        move(ActionKind::send_forward, before);
      }
      if (is_valid(micro_batch))
        act({forward ? ActionKind::forward : ActionKind::full_backward, stage_, micro_batch});
      before = micro_batch;
    }
    act({ActionKind::reduce_grad, stage_});
    return std::move(program_);
  }

 private:
  bool is_valid(int micro_batch) const { return micro_batch >= 0 && micro_batch < micro_batches_; }
  int forward_of(int step) const { return step / 2 - stage_ / 2; }
  int backward_of(int step) const {
    return step % 2 == 0 ? step / 2 - stages_ + (stage_ + 1) / 2
                         : (step - 1) / 2 - stages_ + 1 + stage_ / 2;
  }

  void act(const Action& action) {
    program_.push_back({.kind = InstructionKind::act, .action = action, .transfers = {}});
  }

  void move(ActionKind kind, int micro_batch) {
    const Action action{kind, stage_, micro_batch};
    const int peer = peer_stage(action);
    if (!is_valid(micro_batch) || peer < 0 || peer >= stages_) return;
    program_.push_back(
        {.kind = InstructionKind::post, .action = {}, .transfers = {{action, peer}}});
    program_.push_back({.kind = InstructionKind::wait,
                        .action = {},
                        .transfers = {},
                        .posted = program_.size() - 1});
  }

  int stage_, stages_, micro_batches_;
  PipelineProgram program_;
};

}  // namespace

PipelineProgram deepspeed_program(int stage, int stages, int micro_batches) {
  return TrainSchedule(stage, stages, micro_batches).program();
}

}  // namespace shardscope
