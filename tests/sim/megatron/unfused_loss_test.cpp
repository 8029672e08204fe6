// Bytes of a cross entropy that is not fused.
#include "sim/megatron/unfused_loss.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shardscope::testing {
namespace {

void add(Schedule& schedule, const std::string& name, Phase phase, MatmulShape shape,
         const std::string& owner) {
  schedule.names.push_back(name);
  Operation op{.name = static_cast<std::uint32_t>(schedule.names.size() - 1), .phase = phase};
  if (!owner.empty()) {
    schedule.owners.push_back(owner);
    op.owner = OwnerId::of(schedule.owners.size() - 1);
    schedule.works.push_back({.kind = WorkKind::matmul, .matmul = shape});
    op.work = static_cast<std::uint32_t>(schedule.works.size() - 1);
  }
  schedule.operations.push_back(op);
  schedule.program.actions.push_back(
      {.kind = HostActionKind::launch,
       .subject = static_cast<std::uint32_t>(schedule.operations.size() - 1)});
}

/// 10 tokens of 7 columns, 30 logits each: 300 logits. 24 bytes of each behind the loss, 8 before
/// the first product of the head's backward; the second one gets nothing.
TEST(PublishedLoss, MovesLogitsOnceAnOperator) {
  Schedule schedule;
  schedule.program.lanes.push_back({.name = "compute", .stream = Stream::compute});
  add(schedule, "aten.mm.default", Phase::forward, {.batch = 1, .m = 10, .n = 30, .k = 7},
      "lm_head");
  add(schedule, "aten.nll_loss_forward.default", Phase::forward, {}, "");
  add(schedule, "aten.mm.default", Phase::backward, {.batch = 1, .m = 10, .n = 7, .k = 30},
      "lm_head");
  add(schedule, "aten.mm.default", Phase::backward, {.batch = 1, .m = 30, .n = 7, .k = 10},
      "lm_head");
  schedule.steps.push_back({.label = "steady", .operations = {0, 4}, .actions = {0, 4}});
  const Schedule made = with_unfused_loss(schedule);
  std::vector<std::int64_t> bytes;
  for (const HostAction& action : made.program.actions)
    bytes.push_back(made.operations[action.subject].bytes.count);
  EXPECT_EQ(bytes, (std::vector<std::int64_t>{0, 0, 7200, 2400, 0, 0}));
  EXPECT_EQ(made.operations[made.program.actions[3].subject].phase, Phase::backward);
}

}  // namespace
}  // namespace shardscope::testing
