#include "sim/megatron/unfused_loss.h"

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "sim/kernels/steady_step.h"

namespace shardscope {
namespace {

class Inserter {
 public:
  explicit Inserter(Schedule schedule) : schedule_(std::move(schedule)) {}

  Schedule insert() {
    rewrite_steady_step(schedule_, [&](std::uint32_t i, std::vector<HostAction>& changed) {
      const HostAction action = schedule_.program.actions[i];
      const bool launches = action.kind == HostActionKind::launch;
      if (launches && begins_backward(schedule_.operations[action.subject]))
        move(changed, action, {.bytes_of_logit = 8, .launches = 1, .phase = Phase::backward});
      changed.push_back(action);
      if (launches && is_loss(schedule_.operations[action.subject]))
        move(changed, action, {.bytes_of_logit = 24, .launches = 4, .phase = Phase::forward});
    });
    return std::move(schedule_);
  }

 private:
  struct Moved {
    std::int64_t bytes_of_logit = 0;
    int launches = 1;
    Phase phase = Phase::forward;
  };

  /// The head's first product of a micro-batch's backward. Its forward says how many logits there
  /// are.
  bool begins_backward(const Operation& op) {
    if (!op.owner || op.work == Operation::no_work) return false;
    const DeviceWork& work = schedule_.works[op.work];
    if (work.kind != WorkKind::matmul || !schedule_.owners[op.owner.value].ends_with("lm_head"))
      return false;
    if (op.phase == Phase::forward) logits_ = work.matmul.m * work.matmul.n;
    return op.phase == Phase::backward && begun_.insert(op.micro_batch).second;
  }

  bool is_loss(const Operation& op) const {
    return op.phase == Phase::forward && schedule_.name(op) == "aten.nll_loss_forward.default";
  }

  void move(std::vector<HostAction>& actions, const HostAction& beside, const Moved& moved) {
    const DeviceWork work{.kind = WorkKind::pointwise,
                          .launches = moved.launches,
                          .bytes = Bytes{logits_ * moved.bytes_of_logit}};
    schedule_.works.push_back(work);
    Operation op = bare_operation(schedule_, beside);
    op.owner = {};
    op.phase = moved.phase;
    op.work = static_cast<std::uint32_t>(schedule_.works.size() - 1);
    op.bytes = work.bytes;
    add_launch(schedule_, op, beside.lane, actions);
  }

  Schedule schedule_;
  std::int64_t logits_ = 0;
  std::set<int> begun_;  // micro-batches
};

}  // namespace

Schedule with_unfused_loss(Schedule schedule) {
  if (schedule.steps.empty()) return schedule;
  return Inserter(std::move(schedule)).insert();
}

}  // namespace shardscope
