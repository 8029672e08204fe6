// What must hold in every window of every strategy, on every rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "tests/backend/profile/stretch_accounting.h"
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"
#include "traces/analysis.h"
#include "traces/chrome_reader.h"

namespace shardscope {
namespace {

struct Case {
  const char* name;
  ShardingStrategy sharding;
  int ranks;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class WindowIdentities : public TrainingFixture, public ::testing::WithParamInterface<Case> {
 protected:
  /// Of all ranks, in one window of three steps.
  std::vector<Trace> profiled() const {
    Job one = job(tiny_gpt2, GetParam().ranks, GetParam().sharding, "run");
    one.steps = 6;
    one.save_model = false;
    one.profile = {.start = 3, .steps = 3, .every = 0};
    run_forked(one);
    std::vector<Trace> traces;
    for (int rank = 0; rank < GetParam().ranks; ++rank)
      traces.push_back(read_chrome_trace(one.output / "profiles" / "3-5" /
                                         ("trace." + std::to_string(rank) + ".json.gz"))
                           .trace);
    return traces;
  }
};

/// Of all ranks, by the operation of a step.
using LastRanks = std::map<std::pair<int, OperationId>, std::set<std::int64_t>>;

void expect_steps_add_up(const Trace& trace) {
  ASSERT_EQ(step_windows(trace).size(), 3U);
  for (const StepWindow& step : step_windows(trace))
    EXPECT_EQ(account(trace, step.window), account_by_stretches(trace, step.window));
}

/// A stream does one thing at a time: times of operations add up to the time it is busy.
void expect_streams_add_up(const Trace& trace) {
  std::map<std::uint16_t, Duration> by_operation;
  std::map<std::uint16_t, std::vector<TimeWindow>> busy;
  for (const Span& span : trace.spans) {
    if (!is_on_device(trace, span)) continue;
    by_operation[span.track] += span.duration;
    busy[span.track].push_back({span.start, span.end()});
  }
  for (const auto& [track, windows] : busy)
    EXPECT_EQ(by_operation[track], IntervalUnion(windows).length()) << trace.tracks[track].name;
}

void expect_waits_within(const Trace& trace, std::size_t i, LastRanks& last_ranks) {
  const Span& span = trace.spans[i];
  const auto waiting = measure_of(trace, i, "waiting_ns");
  const auto last = measure_of(trace, i, "last_rank");
  ASSERT_TRUE(waiting && last) << trace.name(span);
  EXPECT_GE(*waiting, 0);
  EXPECT_LE(*waiting, span.duration.ns);
  if (*last == trace.rank) {
    EXPECT_EQ(*waiting, 0);
  }
  last_ranks[{span.step, span.operation}].insert(*last);
}

void expect_measures(const Trace& trace, LastRanks& last_ranks) {
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const Span& span = trace.spans[i];
    if (!is_on_device(trace, span)) continue;
    EXPECT_TRUE(measure_of(trace, i, "processor_ns") || measure_of(trace, i, "cycles"))
        << trace.name(span);
    if (span.span_class == SpanClass::communication) expect_waits_within(trace, i, last_ranks);
  }
}

TEST_P(WindowIdentities, Hold) {
  LastRanks last_ranks;
  for (const Trace& trace : profiled()) {
    SCOPED_TRACE("rank " + std::to_string(trace.rank));
    expect_steps_add_up(trace);
    expect_streams_add_up(trace);
    expect_measures(trace, last_ranks);
  }
  // All ranks of a group say the same of who came last; hybrid sharding has several groups.
  if (GetParam().sharding == ShardingStrategy::hybrid_shard) return;
  for (const auto& [call, ranks] : last_ranks) EXPECT_EQ(ranks.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Strategies, WindowIdentities,
                         ::testing::Values(Case{"no_shard", ShardingStrategy::no_shard, 2},
                                           Case{"zero1", ShardingStrategy::zero1, 2},
                                           Case{"shard_grad_op", ShardingStrategy::shard_grad_op,
                                                2},
                                           Case{"full_shard", ShardingStrategy::full_shard, 2},
                                           Case{"hybrid_shard", ShardingStrategy::hybrid_shard, 4}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace shardscope
