#include <algorithm>
#include <optional>

#include "core/pipeline/program.h"

namespace shardscope {
namespace {

/// One rank's program in the making; the rank has the stage of its own number.
class SingleStage {
 public:
  SingleStage(const PipelineSetup& setup, int rank)
      : micro_batches_(setup.micro_batches), stages_(setup.stages()), stage_(rank) {}

  PipelineProgram gpipe() && {
    std::vector<std::size_t> sends;
    for (int i = 0; i < micro_batches_; ++i) {
      post_and_wait(transfers(ActionKind::receive_forward, i));
      compute(ActionKind::forward, i);
      if (const auto posted = post(transfers(ActionKind::send_forward, i)))
        sends.push_back(*posted);
    }
    for (const std::size_t posted : sends) wait(posted);
    sends.clear();
    for (int i = 0; i < micro_batches_; ++i) {
      post_and_wait(transfers(ActionKind::receive_backward, i));
      compute(ActionKind::full_backward, i);
      if (const auto posted = post(transfers(ActionKind::send_backward, i)))
        sends.push_back(*posted);
    }
    for (const std::size_t posted : sends) wait(posted);
    reduce();
    return std::move(program_);
  }

  PipelineProgram one_f_one_b() && {
    const int warm_up = std::min(micro_batches_, stages_ - stage_);
    std::optional<std::size_t> sent;
    for (int i = 0; i < warm_up; ++i) {
      post_and_wait(transfers(ActionKind::receive_forward, i));
      compute(ActionKind::forward, i);
      if (sent) wait(*sent);
      // The last send goes with the first backward's receive.
      sent = i + 1 < warm_up ? post(transfers(ActionKind::send_forward, i)) : std::nullopt;
    }
    int forwards = warm_up;
    int backwards = 0;
    while (true) {
      post_and_wait(joined(transfers(ActionKind::send_forward, forwards - 1),
                           transfers(ActionKind::receive_backward, backwards)));
      compute(ActionKind::full_backward, backwards++);
      if (forwards == micro_batches_) break;
      post_and_wait(joined(transfers(ActionKind::send_backward, backwards - 1),
                           transfers(ActionKind::receive_forward, forwards)));
      compute(ActionKind::forward, forwards++);
    }
    sent = post(transfers(ActionKind::send_backward, backwards - 1));
    for (; backwards < micro_batches_; ++backwards) {
      post_and_wait(transfers(ActionKind::receive_backward, backwards));
      compute(ActionKind::full_backward, backwards);
      if (sent) wait(*sent);
      sent = post(transfers(ActionKind::send_backward, backwards));
    }
    if (sent) wait(*sent);
    reduce();
    return std::move(program_);
  }

 private:
  using Transfers = std::vector<PipelineTransfer>;

  /// None where there is no stage at the other end.
  Transfers transfers(ActionKind kind, int micro_batch) const {
    const Action action{kind, stage_, micro_batch};
    const int peer = peer_stage(action);
    if (peer < 0 || peer >= stages_) return {};
    return {{action, peer}};
  }
  static Transfers joined(Transfers first, const Transfers& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

  void compute(ActionKind kind, int micro_batch) {
    program_.push_back(
        {.kind = InstructionKind::act, .action = {kind, stage_, micro_batch}, .transfers = {}});
  }
  void reduce() { compute(ActionKind::reduce_grad, Action::all_micro_batches); }
  /// The instruction, where there is anything to post.
  std::optional<std::size_t> post(Transfers transfers) {
    if (transfers.empty()) return std::nullopt;
    program_.push_back(
        {.kind = InstructionKind::post, .action = {}, .transfers = std::move(transfers)});
    return program_.size() - 1;
  }
  void wait(std::size_t posted) {
    program_.push_back(
        {.kind = InstructionKind::wait, .action = {}, .transfers = {}, .posted = posted});
  }
  void post_and_wait(Transfers transfers) {
    if (const auto posted = post(std::move(transfers))) wait(*posted);
  }

  int micro_batches_, stages_, stage_;
  PipelineProgram program_;
};

}  // namespace

PipelineProgram single_stage_program(const PipelineSetup& setup, int rank) {
  SingleStage stage(setup, rank);
  return setup.kind == PipelineScheduleKind::gpipe ? std::move(stage).gpipe()
                                                   : std::move(stage).one_f_one_b();
}

}  // namespace shardscope
