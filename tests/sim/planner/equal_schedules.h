// Whether two recordings are the same, row by row.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <tuple>

#include "core/schedule/schedule.h"

namespace shardscope::planner {

/// An operation with what it points at, but for shapes.
inline auto whole(const Schedule& schedule, const Operation& op) {
  const bool has_work = op.work != Operation::no_work;
  return std::tuple(op.name, op.kind, op.stream, op.phase, op.dtype, op.micro_batch, op.recomputed,
                    op.step, op.unit, op.owner, op.operands, op.after, op.bytes, op.flops,
                    has_work ? schedule.works[op.work] : DeviceWork{},
                    is_collective(op.kind) ? schedule.collectives[op.detail] : Collective{},
                    has_work);
}

inline auto whole(const Buffer& buffer) {
  return std::tuple(buffer.name, buffer.category, buffer.lane, buffer.on_host, buffer.bytes,
                    buffer.copies, buffer.allocated_by, buffer.freed_by, buffer.unit, buffer.owner);
}

/// A buffer as it is made.
inline auto made(const Buffer& buffer) {
  return std::tuple(buffer.name, buffer.category, buffer.lane, buffer.on_host, buffer.bytes,
                    buffer.copies, buffer.allocated_by, buffer.unit, buffer.owner);
}

/// `a` and `b` have the same rows up to the end of step `last`; one of them may go on.
inline void expect_equal_up_to(std::size_t last, const Schedule& a, const Schedule& b) {
  ASSERT_GT(a.steps.size(), last);
  ASSERT_GT(b.steps.size(), last);
  ASSERT_EQ(a.steps[last].actions, b.steps[last].actions);
  ASSERT_EQ(a.steps[last].operations, b.steps[last].operations);
  for (std::uint32_t i = 0; i < a.steps[last].actions.end; ++i) {
    const HostAction& row = a.program.actions[i];
    ASSERT_EQ(row, b.program.actions[i]) << i;
    if (row.kind == HostActionKind::allocate) {
      ASSERT_EQ(made(a.buffers[row.subject]), made(b.buffers[row.subject])) << i;
    }
    if (issues_operation(row.kind)) {
      ASSERT_EQ(whole(a, a.operations[row.subject]), whole(b, b.operations[row.subject])) << i;
    }
  }
}

inline void expect_equal(const Schedule& a, const Schedule& b) {
  EXPECT_EQ(a.names, b.names);
  EXPECT_EQ(a.owners, b.owners);
  EXPECT_EQ(a.groups, b.groups);
  EXPECT_EQ(a.operands, b.operands);
  EXPECT_EQ(a.after, b.after);
  EXPECT_EQ(a.program.actions, b.program.actions);
  EXPECT_EQ(a.program.lanes, b.program.lanes);
  EXPECT_EQ(a.program.marks, b.program.marks);
  EXPECT_EQ(a.program.events, b.program.events);
  EXPECT_EQ(a.world, b.world);
  EXPECT_EQ(a.workload.micro_batches, b.workload.micro_batches);
  EXPECT_EQ(a.strategy.runtime, b.strategy.runtime);
  ASSERT_EQ(a.buffers.size(), b.buffers.size());
  for (std::size_t i = 0; i < a.buffers.size(); ++i)
    ASSERT_EQ(whole(a.buffers[i]), whole(b.buffers[i])) << a.name(a.buffers[i]);
  ASSERT_EQ(a.operations.size(), b.operations.size());
  for (std::size_t i = 0; i < a.operations.size(); ++i)
    ASSERT_EQ(whole(a, a.operations[i]), whole(b, b.operations[i])) << a.name(a.operations[i]);
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(a.steps[i].label, b.steps[i].label);
    EXPECT_EQ(a.steps[i].operations, b.steps[i].operations);
    EXPECT_EQ(a.steps[i].actions, b.steps[i].actions);
  }
}

}  // namespace shardscope::planner
