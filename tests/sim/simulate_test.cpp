// Properties of whole simulations that hold for every schedule and machine.
#include "sim/engine/simulate.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/schedule/schedule.h"
#include "sim/cost/cost_model.h"
#include "tests/core/small_models.h"
#include "traces/schedule_trace.h"

namespace shardscope {
namespace {

/// A machine on which communication matters: 1 TFLOP/s, 100 GB/s memory, 1 GB/s links.
HardwareProfile machine(const std::string& device) {
  return {.name = "test",
          .device = device,
          .peak = {1e12},
          .memory_bandwidth = {100e9},
          .operation_overhead = 1_us,
          .link = Link{.bandwidth = {1e9}, .latency = 1_us},
          .compute_slowdown = 1.5,
          .collective_slowdown = 2};
}

Schedule schedule_of(ShardingStrategy sharding, int world) {
  const Mesh mesh = sharding == ShardingStrategy::hybrid_shard
                        ? Mesh{.replicate = 2, .shard = world / 2}
                        : Mesh{};
  const Strategy strategy = resolved({.sharding = sharding, .mesh = mesh}, world, "test");
  return native_schedule(testing::small_llama(3), strategy, {.batch = 2, .length = 8}, 0);
}

struct Case {
  ShardingStrategy sharding;
  std::string device;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << name_of(c.sharding) << " on " << c.device;
}

class EverySimulation : public ::testing::TestWithParam<Case> {
 protected:
  Schedule schedule_ = schedule_of(GetParam().sharding, 4);
  HardwareProfile profile_ = machine(GetParam().device);
  Simulation simulation_ = simulate(schedule_, profile_);
};

TEST_P(EverySimulation, SpanIsComputeExposedCommunicationExposedCopiesAndIdle) {
  const Accounting& a = simulation_.accounting;
  EXPECT_EQ(a.span, a.compute + a.exposed_communication + a.exposed_copy + a.idle);
  EXPECT_GT(a.compute, 0_ns);
}

TEST_P(EverySimulation, NothingStartsBeforeWhatItIsAfterHasEnded) {
  std::map<OperationId, Duration> end;
  for (const Span& span : simulation_.trace.spans) end[span.operation] = span.end();
  for (const Span& span : simulation_.trace.spans)
    for (const OperationId before : schedule_.after_of(schedule_.at(span.operation)))
      EXPECT_GE(span.start, end[before]) << simulation_.trace.name(span);
}

TEST_P(EverySimulation, OperationsOfAStreamDoNotOverlap) {
  std::array<Duration, stream_count> free_from{};
  for (const Span& span : simulation_.trace.spans) {
    Duration& from =
        free_from[static_cast<std::size_t>(simulation_.trace.tracks[span.track].stream)];
    EXPECT_GE(span.start, from);
    from = span.end();
  }
}

TEST_P(EverySimulation, NothingRunsFasterThanAlone) {
  const std::vector<Duration> alone = operation_times(schedule_, CostModel(profile_));
  for (const Span& span : simulation_.trace.spans)
    EXPECT_GE(span.duration, alone[span.operation.value]);
}

TEST_P(EverySimulation, WithoutContentionComputeIsTheSumOfItsKernels) {
  profile_.compute_slowdown = profile_.collective_slowdown = 1;
  const std::vector<Duration> alone = operation_times(schedule_, CostModel(profile_));
  Duration sum;
  for (std::size_t i = 0; i < alone.size(); ++i)
    if (!is_collective(schedule_.operations[i].kind) &&
        schedule_.operations[i].phase != Phase::init)
      sum += alone[i];
  EXPECT_EQ(simulate(schedule_, profile_).accounting.compute, sum);
}

TEST_P(EverySimulation, RunsEveryOperationOfTheStepOnce) {
  std::set<OperationId> seen;
  for (const Span& span : simulation_.trace.spans) EXPECT_TRUE(seen.insert(span.operation).second);
  std::size_t expected = 0;
  for (const Operation& op : schedule_.operations) expected += op.phase != Phase::init;
  EXPECT_EQ(seen.size(), expected);
}

TEST_P(EverySimulation, LiveBytesAreTheSchedulesAtEveryOperation) {
  const std::vector<CategoryBytes> live = live_bytes(schedule_);
  const std::vector<MemorySample>& memory = simulation_.trace.memory;
  for (std::size_t i = 0; i + 1 < memory.size(); ++i) {
    EXPECT_EQ(memory[i].live, live[memory[i].operation.value]);
    EXPECT_LE(memory[i].time, memory[i + 1].time);
  }
  EXPECT_EQ(memory.back().live, resting_bytes(schedule_));
}

TEST_P(EverySimulation, ReachesTheSchedulesPeak) {
  Bytes peak;
  for (std::size_t i = 0; i < schedule_.operations.size(); ++i)
    if (schedule_.operations[i].phase != Phase::init)
      peak = std::max(peak, live_bytes(schedule_)[i].total());
  Bytes seen;
  for (const MemorySample& sample : simulation_.trace.memory)
    seen = std::max(seen, sample.live.total());
  EXPECT_EQ(seen, peak);
}

TEST_P(EverySimulation, IsTheSameWhenItIsRunAgain) {
  EXPECT_EQ(simulate(schedule_, profile_).trace, simulation_.trace);
}

INSTANTIATE_TEST_SUITE_P(Strategies, EverySimulation,
                         ::testing::Values(Case{ShardingStrategy::no_shard, "cpu"},
                                           Case{ShardingStrategy::zero1, "cpu"},
                                           Case{ShardingStrategy::shard_grad_op, "cpu"},
                                           Case{ShardingStrategy::full_shard, "cpu"},
                                           Case{ShardingStrategy::hybrid_shard, "cpu"},
                                           Case{ShardingStrategy::full_shard, "cuda"},
                                           Case{ShardingStrategy::no_shard, "cuda"}),
                         [](const auto& parameter) {
                           return std::string(name_of(parameter.param.sharding)) + "_" +
                                  parameter.param.device;
                         });

TEST(Simulate, AFreeNetworkMakesComputeIndependentOfTheWorld) {
  // Forward and backward kernels are the same for 8 and 1024 ranks; what is sharded (optimizer) is
  // not compared.
  HardwareProfile profile = machine("cuda");
  profile.link = Link{.bandwidth = {1e18}, .latency = 0_ns};
  profile.compute_slowdown = profile.collective_slowdown = 1;
  const auto compute_of = [&](int world) {
    const Simulation simulation =
        simulate(schedule_of(ShardingStrategy::full_shard, world), profile);
    Duration sum;
    for (const Span& span : simulation.trace.spans) {
      const OperationFacts& facts = simulation.trace.facts[span.operation.value];
      if (facts.kind == OperationKind::compute &&
          (facts.phase == Phase::forward || facts.phase == Phase::backward))
        sum += span.duration;
    }
    return sum;
  };
  EXPECT_EQ(compute_of(8), compute_of(1024));
}

TEST(Simulate, TheScheduleDoesNotGrowWithTheWorld) {
  EXPECT_EQ(schedule_of(ShardingStrategy::full_shard, 8).operations.size(),
            schedule_of(ShardingStrategy::full_shard, 1024).operations.size());
}

TEST(Simulate, OneRankCommunicatesForNoTime) {
  EXPECT_EQ(simulate(schedule_of(ShardingStrategy::full_shard, 1), machine("cpu"))
                .accounting.communication,
            0_ns);
}

}  // namespace
}  // namespace shardscope
