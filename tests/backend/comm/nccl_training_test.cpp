// Training on several GPUs through our real CUDA and NCCL code, with the kernels emulated and the
// collectives moved by stand-ins: that each rank calls NCCL as its schedule says, that events order
// it so, and that the losses are those of one rank. That NCCL and a GPU do as the stand-ins do is
// not shown here.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/train/line_file.h"
#include "backend/train/trainer.h"
#include "core/format/atomic_file.h"
#include "tests/backend/comm/stand_in_ranks.h"
#include "tests/backend/cuda/launch_record.h"
#include "tests/backend/cuda/stand_in_device.h"
#include "tests/backend/cuda/stand_in_teacher.h"
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"

namespace shardscope::test {
namespace {

using testing::RankOutcome;

struct Layout {
  ShardingStrategy sharding;
  int ranks;
  Offload offload = Offload::none;
};
void PrintTo(const Layout& layout, std::ostream* out) {
  *out << name_of(layout.sharding) << " on " << layout.ranks << " offload "
       << name_of(layout.offload);
}
std::string test_name(const ::testing::TestParamInfo<Layout>& info) {
  const std::string name = fmt::format("{}_on_{}", name_of(info.param.sharding), info.param.ranks);
  if (info.param.offload == Offload::none) return name;
  return fmt::format("{}_offload_{}", name, name_of(info.param.offload));
}
const auto every_layout = ::testing::Values(
    Layout{ShardingStrategy::no_shard, 2}, Layout{ShardingStrategy::zero1, 2},
    Layout{ShardingStrategy::shard_grad_op, 2}, Layout{ShardingStrategy::full_shard, 2},
    Layout{ShardingStrategy::no_shard, 4}, Layout{ShardingStrategy::zero1, 4},
    Layout{ShardingStrategy::shard_grad_op, 4}, Layout{ShardingStrategy::full_shard, 4},
    Layout{ShardingStrategy::hybrid_shard, 4}, Layout{ShardingStrategy::hybrid_shard_zero2, 4},
    Layout{ShardingStrategy::zero1, 2, Offload::optimizer},
    Layout{ShardingStrategy::full_shard, 2, Offload::all});

class NcclTraining : public TrainingFixture, public ::testing::WithParamInterface<Layout> {
 protected:
  /// Emulated kernels are slow.
  static int steps() { return GetParam().ranks == 4 ? 50 : 10; }

  Job small_job(const Layout& layout, const std::string& output) const {
    Job one = job(smallest_gpt2, layout.ranks, layout.sharding, output);
    one.check = false;
    one.seq = 8;
    one.profile_steps = 1;
    one.steps = steps();
    one.strategy.offload = layout.offload;
    return one;
  }

  using Body = std::function<void(Trainer&, const StandInRank&)>;
  static void run(const Job& job, const StandInJob& stand_in, const Body& body) {
    create_folder(job.output);
    const auto outcomes = run_stand_in_ranks(stand_in, [&](const StandInRank& rank) {
      teach_job(job, rank.place.rank, rank.place.world, rank.device);
      Trainer trainer(job, rank.world, rank.device);
      body(trainer, rank);
      trainer.executor().between_steps([&] { rank.world.barrier(); });
    });
    for (const RankOutcome& outcome : outcomes) EXPECT_EQ(outcome, RankOutcome{});
  }
};

void require_equal(const std::vector<std::string>& actual, const std::vector<std::string>& wanted) {
  if (actual == wanted) return;
  throw std::runtime_error(
      fmt::format("calls\n{}\ninstead of\n{}", fmt::join(actual, "\n"), fmt::join(wanted, "\n")));
}

std::string nccl_name(OperationKind kind) {
  if (kind == OperationKind::all_gather) return "ncclAllGather";
  return kind == OperationKind::reduce_scatter ? "ncclReduceScatter" : "ncclAllReduce";
}

/// A gather is given what one rank puts in; the others all of what is summed.
std::string expected_call(const Schedule& schedule, const Operation& operation) {
  const Collective& collective = schedule.collectives[operation.detail];
  return fmt::format("{} on stream {}: {} B, ranks {}", nccl_name(operation.kind),
                     static_cast<int>(operation.stream),
                     bytes_of(collective.elements_in, collective.dtype).count,
                     fmt::join(schedule.groups[collective.group.value].ranks.list(), " "));
}

std::vector<std::string> expected_calls(const Schedule& schedule) {
  std::vector<std::string> calls;
  for (const Operation& operation : schedule.operations)
    if (operation.phase != Phase::init && is_collective(operation.kind))
      calls.push_back(expected_call(schedule, operation));
  return calls;
}

bool is_collective_call(const RuntimeCall& call) { return call.name.starts_with("nccl"); }

std::vector<std::string> collective_calls(const std::vector<RuntimeCall>& calls) {
  std::vector<std::string> texts;
  for (const RuntimeCall& call : calls)
    if (is_collective_call(call))
      texts.push_back(fmt::format("{} on stream {}: {}", call.name, call.stream, call.detail));
  return texts;
}

/// How many calls on each stream have ended, for certain, when something begins.
using Ended = std::array<std::size_t, stream_count>;

/// What a call on a stream knows to have ended before it: what stands before it there, and what the
/// events say that were waited for.
class Known {
 public:
  /// Of `call`, which is part of the recorded order from then on.
  Ended before(const RuntimeCall& call) {
    const auto stream = static_cast<std::size_t>(call.stream);
    Ended& known = known_[stream];
    if (call.name == "cudaEventRecord") at_event_[call.detail] = known;
    if (call.name == "cudaStreamWaitEvent") {
      const Ended& event = at_event_.at(call.detail);
      for (std::size_t i = 0; i < known.size(); ++i) known[i] = std::max(known[i], event[i]);
    }
    const Ended before = known;
    ++known[stream];
    return before;
  }

 private:
  std::array<Ended, stream_count> known_{};
  std::map<std::string, Ended> at_event_;
};

/// Where an operation stands among the calls of its stream, and what it knows to have ended.
struct Place {
  std::size_t stream = 0;
  std::size_t last = 0;  ///< number of its last call there, from 1
  Ended before{};        ///< its first call
};

bool is_of_offload(const RuntimeCall& call) {
  return call.name == "cudaMemcpyAsync" || call.name == "cudaLaunchHostFunc";
}

/// Calls by which the device is asked for an operation.
std::size_t calls_of(const Schedule& schedule, const Operation& operation) {
  const bool is_one = is_collective(operation.kind) || operation.kind == OperationKind::copy ||
                      operation.stream == Stream::host;
  return is_one ? 1 : launches_of(schedule, operation).size();
}

/// Takes the recorded calls, which are in the order of the operations, apart by operation.
std::vector<Place> places_of(const Schedule& schedule, const std::vector<RuntimeCall>& calls) {
  std::vector<Place> places(schedule.operations.size());
  Known known;
  std::size_t next = 0;
  const auto take_next = [&](Place& place, bool first) {
    Ended before{};
    for (bool found = false; !found; ++next) {
      const RuntimeCall& call = calls.at(next);
      if (call.stream < 0) continue;
      before = known.before(call);
      found = is_collective_call(call) || is_of_offload(call) ||
              (call.name.starts_with("shardscope::") && !call.name.ends_with("::SetStepState"));
      place.stream = static_cast<std::size_t>(call.stream);
      place.last = before[place.stream] + 1;
    }
    if (first) place.before = before;
  };
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Operation& operation = schedule.operations[i];
    if (operation.phase == Phase::init || operation.kind == OperationKind::host) continue;
    const std::size_t count = calls_of(schedule, operation);
    for (std::size_t nth = 0; nth < count; ++nth) take_next(places[i], nth == 0);
  }
  return places;
}

/// Every operation of the step begins when those that it comes after have ended, whatever the
/// streams do.
void require_order(const Schedule& schedule, const std::vector<RuntimeCall>& calls) {
  const std::vector<Place> places = places_of(schedule, calls);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].last == 0) continue;
    for (const OperationId other : schedule.after_of(schedule.operations[i])) {
      const Place& earlier = places[other.value];
      if (earlier.last <= places[i].before[earlier.stream]) continue;
      throw std::runtime_error(fmt::format("operation {} ({}) does not wait for {} ({})", i,
                                           schedule.name(schedule.operations[i]), other.value,
                                           schedule.name(schedule.at(other))));
    }
  }
}

std::string text_of_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class NcclOrder : public NcclTraining {};

// On every rank: kind, size, group and stream of each call, in the order of the schedule, behind
// the events of what it depends on. The ranks' calls are the same but for the groups.
TEST_P(NcclOrder, OfCallsSizesStreamsAndWaitsIsTheSchedules) {
  const Job one = small_job(GetParam(), "order");
  run(one, {.ranks = one.ranks}, [&](Trainer& trainer, const StandInRank& rank) {
    StandInDevice::get().forget_calls();
    trainer.executor().run_step({.learning_rate = 1e-3, .step = 1}, true);
    const std::vector<RuntimeCall> calls = StandInDevice::get().calls();
    require_equal(collective_calls(calls), expected_calls(trainer.schedule()));
    require_order(trainer.schedule(), calls);
    LineFile file(one.output / fmt::format("calls.{}", rank.place.rank));
    for (const std::string& call : collective_calls(calls))
      file.append(call.substr(0, call.find(", ranks")));
  });
  const std::string first = text_of_file(one.output / "calls.0");
  EXPECT_FALSE(first.empty());
  for (int rank = 1; rank < one.ranks; ++rank)
    EXPECT_EQ(text_of_file(one.output / fmt::format("calls.{}", rank)), first) << rank;
}

INSTANTIATE_TEST_SUITE_P(, NcclOrder, every_layout, test_name);

class NcclLosses : public NcclTraining {
 protected:
  std::vector<double> losses() const {
    const Job one = small_job(GetParam(), "ranks");
    run(one, {.ranks = one.ranks}, [&](Trainer& trainer, const StandInRank& rank) {
      const int number = rank.place.rank;
      LineFile file(one.output / (number == 0 ? "metrics.jsonl" : fmt::format("rank.{}", number)));
      for (int step = 0; step < one.steps; ++step) file.append(to_json(trainer.run_step().metrics));
      if (!trainer.executor().why_no_graph().empty())
        throw std::runtime_error(trainer.executor().why_no_graph());
    });
    return metrics(one);
  }
};

// Of 50 steps on 4 ranks, the first two and the last are walked, one is captured and the others are
// replayed, collectives included. One rank trains on the CPU device.
TEST_P(NcclLosses, AreThoseOfOneRank) {
  const std::vector<double> ours = losses();
  const std::vector<double> one_rank =
      run_forked(small_job({ShardingStrategy::no_shard, 1}, "one_rank"));
  ASSERT_EQ(ours.size(), 2 * static_cast<std::size_t>(steps()));
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_NEAR(ours[i], one_rank[i], 1e-5 * one_rank[i]) << "step " << i / 2 + 1;
  EXPECT_LT(one_rank[one_rank.size() - 2], one_rank[0]);
}

INSTANTIATE_TEST_SUITE_P(, NcclLosses, every_layout, test_name);

class NcclReplay : public NcclTraining {};

// NCCL ends no communicator before the graphs that hold its collectives are gone, and the thread
// that has them waits for the device: an abort waits for neither.
TEST_P(NcclReplay, OfAStepThatHangsEndsAllRanksAfterTheDeadline) {
  const Job one = small_job(GetParam(), "hang");
  create_folder(one.output);
  const auto start = std::chrono::steady_clock::now();
  const StandInJob stand_in{
      .ranks = one.ranks, .deadline = std::chrono::seconds(5), .fault = "hang:1:60"};
  const auto outcomes = run_stand_in_ranks(stand_in, [&](const StandInRank& rank) {
    teach_job(one, rank.place.rank, rank.place.world, rank.device);
    Trainer trainer(one, rank.world, rank.device);
    for (int step = 0; step < one.steps; ++step) {
      StandInDevice::get().forget_calls();
      trainer.run_step();
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
  for (const RankOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.exit_code, 4);
    EXPECT_THAT(outcome.message, ::testing::HasSubstr("wait of 0 B"));
  }
}

INSTANTIATE_TEST_SUITE_P(, NcclReplay,
                         ::testing::Values(Layout{ShardingStrategy::full_shard, 2},
                                           Layout{ShardingStrategy::hybrid_shard, 4}),
                         test_name);

}  // namespace
}  // namespace shardscope::test
