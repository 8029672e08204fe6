#include "backend/profile/nvtx_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "backend/comm/single/communicator.h"
#include "backend/executor/executor.h"
#include "backend/executor/probe_scopes.h"
#include "core/base/error.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/schedule/schedule_builder.h"
#include "tests/backend/comm/forked_ranks.h"
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"
#include "tests/core/small_models.h"

namespace shardscope {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// One line of the listener: "push", thread, domain, category, name, fields.
struct Heard {
  std::vector<std::string> words;

  const std::string& what() const { return words[0]; }
  bool is_push() const { return what() == "push"; }
  bool is_pop() const { return what() == "pop"; }
  int thread() const { return std::stoi(words.at(1)); }
  int category() const { return std::stoi(words.at(3)); }
  const std::string& name() const { return words.at(4); }
  std::vector<std::string> fields() const { return {words.begin() + 5, words.end()}; }
};

constexpr int step_category = 1, phase_category = 2, unit_category = 3, operation_category = 4,
              collective_category = 5;

/// What each process of a program told the listener.
std::vector<std::vector<Heard>> read_logs(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("nvtx.")) files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<std::vector<Heard>> logs;
  for (const auto& file : files) {
    std::ifstream in(file);
    std::vector<Heard>& log = logs.emplace_back();
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      Heard& heard = log.emplace_back();
      for (std::string word; std::getline(words, word, '\t');) heard.words.push_back(word);
    }
  }
  return logs;
}

class NvtxRangesTest : public TrainingFixture {
 protected:
  /// NVTX looks for its listener once, so each test's processes are its own.
  void listen(const char* kind = "") const {
    ::setenv("NVTX_INJECTION64_PATH", SHARDSCOPE_NVTX_LISTENER_LIBRARY, 1);
    ::setenv("SHARDSCOPE_NVTX_LOG", (folder().path() / "nvtx").c_str(), 1);
    ::setenv("SHARDSCOPE_NVTX_LISTENER", kind, 1);
  }
  void TearDown() override { ::unsetenv("NVTX_INJECTION64_PATH"); }

  std::vector<std::vector<Heard>> heard_in_training() const {
    Job two = job(tiny_gpt2, 2, ShardingStrategy::full_shard, "run");
    two.steps = 2;
    run_forked(two);
    return read_logs(folder().path());
  }
  /// Of one process that runs `body`.
  std::vector<Heard> heard_in(const std::function<void(const Environment&)>& body) const {
    const auto outcomes = shardscope::testing::run_ranks(1, body);
    EXPECT_EQ(outcomes.at(0), shardscope::testing::RankOutcome{});
    const auto logs = read_logs(folder().path());
    return logs.empty() ? std::vector<Heard>() : logs.at(0);
  }
};

std::vector<std::string> names(const std::vector<Heard>& log, int category) {
  std::vector<std::string> found;
  for (const Heard& heard : log)
    if (heard.is_push() && heard.category() == category) found.push_back(heard.name());
  return found;
}

const Heard* find(const std::vector<Heard>& log, const std::string& name) {
  const auto found = std::ranges::find_if(
      log, [&](const Heard& heard) { return heard.is_push() && heard.name() == name; });
  return found == log.end() ? nullptr : &*found;
}

/// Pushes without pops by thread, at the end.
std::map<int, int> left_open(const std::vector<Heard>& log) {
  std::map<int, int> open;
  for (const Heard& heard : log) {
    if (heard.is_push()) ++open[heard.thread()];
    if (heard.is_pop()) --open[heard.thread()];
    EXPECT_TRUE(!heard.is_pop() || open[heard.thread()] >= 0);
  }
  return open;
}

TEST_F(NvtxRangesTest, StepsHoldPhasesHoldUnitsHoldOperations) {
  listen();
  const auto logs = heard_in_training();
  ASSERT_EQ(logs.size(), 2u);
  for (const auto& log : logs) {
    std::map<int, std::vector<int>> stacks;
    for (const Heard& heard : log) {
      if (heard.is_pop()) stacks[heard.thread()].pop_back();
      if (!heard.is_push()) continue;
      EXPECT_EQ(heard.words.at(2), "Shardscope");
      std::vector<int>& stack = stacks[heard.thread()];
      const bool is_nested = !stack.empty() && stack.back() < heard.category();
      const bool begins = stack.empty() && (heard.category() == step_category ||
                                            heard.category() == collective_category);
      EXPECT_TRUE(is_nested || begins) << heard.name();
      stack.push_back(heard.category());
    }
    EXPECT_EQ(stacks.size(), 2u) << "the walk, and the communication thread";
    for (const auto& [thread, stack] : stacks) EXPECT_THAT(stack, IsEmpty());
  }
}

TEST_F(NvtxRangesTest, NamesAreTheSchedulesOwn) {
  listen();
  const std::vector<Heard> log = heard_in_training().at(0);
  EXPECT_THAT(names(log, step_category), ElementsAre("step", "step"));
  const std::vector<std::string> phases = names(log, phase_category);
  ASSERT_EQ(phases.size(), 10u);
  EXPECT_THAT(std::vector(phases.begin(), phases.begin() + 5),
              ElementsAre("zero_grad", "forward", "backward", "clip", "optimizer"));
  const std::vector<std::string> units = names(log, unit_category);
  // Forward: the embedding, three blocks, the head; backward begins with the head's part of the
  // root, too, which goes on.
  EXPECT_THAT(std::vector(units.begin(), units.begin() + 5),
              ElementsAre("root", "transformer.h.0", "transformer.h.1", "transformer.h.2", "root"));
  EXPECT_NE(find(log, "transformer.h.1.attn attention_forward"), nullptr);
}

/// tiny_gpt2's block in pieces of 256: norms 4 x 256, c_attn 3072 + 256, attn.c_proj 1024 + 256,
/// c_fc 4096 + 256, mlp.c_proj 4096 + 256: 14336 elements, 57344 bytes, of which a rank has half.
TEST_F(NvtxRangesTest, CollectivesCarryBytesAndGroup) {
  listen();
  const std::vector<Heard> log = heard_in_training().at(0);
  const Heard* gather = find(log, "all_gather:transformer.h.0");
  ASSERT_NE(gather, nullptr);
  EXPECT_EQ(gather->category(), collective_category);
  std::vector<std::string> fields = gather->fields();
  ASSERT_EQ(fields.size(), 7u);
  EXPECT_TRUE(fields[0].starts_with("operation="));
  fields.erase(fields.begin());
  EXPECT_THAT(fields, ElementsAre("bytes=57344", "elements in=7168", "elements out=14336",
                                  "dtype=float32", "group=world", "ranks=0, 1"));
}

TEST_F(NvtxRangesTest, StepsCarryTheirNumber) {
  listen();
  const std::vector<Heard> log = heard_in_training().at(1);
  std::vector<std::string> numbers;
  for (const Heard& heard : log)
    if (heard.is_push() && heard.category() == step_category)
      numbers.push_back(heard.fields().at(0));
  EXPECT_THAT(numbers, ElementsAre("value=1", "value=2"));
}

TEST_F(NvtxRangesTest, AToolWithoutSchemasGetsTheBytes) {
  listen("plain");
  const std::vector<Heard> log = heard_in_training().at(0);
  const Heard* gather = find(log, "all_gather:transformer.h.0");
  ASSERT_NE(gather, nullptr);
  EXPECT_THAT(gather->fields(), ElementsAre("value=57344"));
}

/// Of a rank of two, whose shards are gathered one unit ahead.
Schedule sharded_schedule() {
  Strategy strategy;
  strategy.sharding = ShardingStrategy::full_shard;
  return native_schedule(testing::small_gpt2(2), resolved(strategy, 2, "test"),
                         {.batch = 1, .length = 4, .clip = 1.0}, 0);
}

/// As on a GPU: one thread queues everything, here while a graph is captured.
TEST_F(NvtxRangesTest, CollectivesThatAreQueuedStandInTheUnitThatQueuesThem) {
  listen();
  const std::vector<Heard> log = heard_in([](const Environment&) {
    const Schedule schedule = sharded_schedule();
    const std::unique_ptr<Probe> ranges = make_nvtx_ranges(schedule);
    const std::vector<Probe*> probes{ranges.get()};
    const StepScope step(probes, 1);
    ranges->begin_capture();
    for (std::size_t i = 0; i < schedule.operations.size(); ++i)
      const OperationScope operation(probes, OperationId::of(i));
    ranges->end_capture();
  });
  EXPECT_THAT(names(log, step_category), ElementsAre("step", "capture"));
  EXPECT_THAT(names(log, phase_category),
              ElementsAre("zero_grad", "forward", "backward", "clip", "optimizer"));
  std::vector<int> stack;
  for (const Heard& heard : log) {
    if (heard.is_push() && heard.name() == "all_gather:transformer.h.1") {
      EXPECT_EQ(stack,
                (std::vector<int>{step_category, step_category, phase_category, unit_category}));
    }
    if (heard.is_push()) stack.push_back(heard.category());
    if (heard.is_pop()) stack.pop_back();
  }
  EXPECT_THAT(stack, IsEmpty());
}

/// A kernel, and one that fails.
Schedule failing_schedule() {
  ScheduleBuilder builder{Schedule{}};
  const BufferId buffer = builder.add_buffer("buffer", MemoryCategory::parameters, 4_B, {},
                                             ScheduleBuilder::Life::persistent);
  for (const char* name : {"first", "second"}) {
    builder.add_kernel({.name = name}, FillZeroKernel{.elements = 1},
                       {builder.whole(buffer, Access::write)});
  }
  Schedule schedule = builder.finish();
  schedule.steps = {{"steady", {0, static_cast<std::uint32_t>(schedule.operations.size())}}};
  return schedule;
}

class FailingDevice : public Device {
 public:
  std::string description() const override { return "failing"; }
  Bytes workspace(const Kernel&) const override { return {}; }
  void prepare(const Kernel&) override {}
  void run(const Kernel&, const KernelCall&) override {
    if (++calls_ == 2)
      throw Error({.where = "device", .what = "it fell off the bus", .way_out = "another one"});
  }

 private:
  int calls_ = 0;
};

TEST_F(NvtxRangesTest, AStepThatFailsLeavesNothingOpen) {
  listen();
  const std::vector<Heard> log = heard_in([](const Environment&) {
    const Schedule schedule = failing_schedule();
    FailingDevice device;
    const auto world = make_single_communicator();
    Executor executor(schedule, device, *world, {});
    const std::unique_ptr<Probe> ranges = make_nvtx_ranges(schedule);
    executor.set_probes({ranges.get()});
    try {
      executor.run_step({.learning_rate = 0, .step = 1});
    } catch (const Error&) {
      // The device's; the process goes on, as a rank does that reports it.
    }
  });
  EXPECT_THAT(names(log, operation_category), ElementsAre("first", "second"));
  for (const auto& [thread, open] : left_open(log)) EXPECT_EQ(open, 0);
  ASSERT_FALSE(log.empty());
  EXPECT_EQ(log.back().what(), "destroy");
}

TEST_F(NvtxRangesTest, ThereAreNoneWhereNobodyListens) {
  ::unsetenv("NVTX_INJECTION64_PATH");
  const std::vector<Heard> log = heard_in([](const Environment&) {
    if (make_nvtx_ranges(failing_schedule()) != nullptr) throw Error({.what = "there are some"});
  });
  EXPECT_THAT(log, IsEmpty());
}

TEST_F(NvtxRangesTest, AToolThatRefusesTheDomainHearsNoMore) {
  listen("deaf");
  const std::vector<Heard> log = heard_in_training().at(0);
  std::vector<std::string> heard;
  for (const Heard& line : log) heard.push_back(line.what());
  EXPECT_THAT(heard, ElementsAre("create", "destroy"));
}

}  // namespace
}  // namespace shardscope
