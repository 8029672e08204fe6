// What the processor did for each operation, measured in a real executor.
#include "backend/profile/operation_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <linux/perf_event.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "backend/base/memory_mapping.h"
#include "backend/comm/single/communicator.h"
#include "backend/executor/profiled_trace.h"
#include "core/schedule/schedule_builder.h"
#include "tests/backend/scripted_device.h"

namespace shardscope {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t ms = 1'000'000;

/// "works", "rests", then a collective.
Schedule schedule_of_three() {
  ScheduleBuilder builder{Schedule{}};
  const BufferId sum = builder.add_buffer("sum", MemoryCategory::parameters, 4_B, {},
                                          ScheduleBuilder::Life::persistent);
  const GroupId all = builder.add_group({.name = "all", .ranks = {0}});
  builder.add_kernel({.name = "works"}, FillZeroKernel{.elements = 1},
                     {builder.whole(sum, Access::read_write)});
  builder.add_kernel({.name = "rests"}, AddKernel{.elements = 1},
                     {builder.whole(sum, Access::read_write)});
  builder.add_collective(
      {.name = "reduce", .kind = OperationKind::all_reduce, .stream = Stream::reduce},
      {.group = all, .elements_in = 1, .elements_out = 1, .dtype = Dtype::float32},
      {builder.whole(sum, Access::read_write)});
  Schedule schedule = builder.finish();
  schedule.steps = {{"steady", {0, static_cast<std::uint32_t>(schedule.operations.size())}}};
  return schedule;
}

constexpr std::size_t fresh_pages = 64;

void touch_fresh_pages() {
  constexpr std::size_t page = 4096;
  const MemoryMapping pages = MemoryMapping::anonymous({fresh_pages * page});
  for (std::size_t at = 0; at < pages.size(); at += page) pages.data()[at] = std::byte{1};
}

constexpr std::int64_t work = 40 * ms;
/// Much longer than anything that a resting thread does on a busy machine.
constexpr std::chrono::milliseconds rest{200};

/// Touches new pages and works 40 ms of processor time, or rests.
void work_or_rest(const Kernel& kernel, const KernelCall&) {
  if (kernel.kind() == KernelKind::add) return std::this_thread::sleep_for(rest);
  const std::int64_t begin = processor_ns(this_thread());
  touch_fresh_pages();
  while (processor_ns(this_thread()) - begin < work) {
  }
}

class OperationCountersTest : public ::testing::Test {
 protected:
  Trace trace_of_window(OpenPerfEvent call) {
    OperationCounters counters(schedule_, threads_of(executor_, 1), std::move(call));
    executor_.set_probes({counters.probe()});
    counters.start();
    for (const std::int64_t step : {7, 8}) executor_.run_step({.learning_rate = 0, .step = step});
    counters.stop();
    executor_.set_probes({});
    Trace trace = profiled_trace(executor_, "scripted", 0);
    counters.add_to(trace, {});
    return trace;
  }
  /// Of the operation in step 7 and 8.
  static std::vector<std::int64_t> measured(const Trace& trace, std::string_view operation,
                                            std::string_view measure) {
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < trace.spans.size(); ++i) {
      if (trace.name(trace.spans[i]) != operation) continue;
      if (const auto value = measure_of(trace, i, measure)) values.push_back(*value);
    }
    return values;
  }

  Schedule schedule_ = schedule_of_three();
  std::unique_ptr<Communicator> world_ = make_single_communicator();
  test::ScriptedDevice device_{work_or_rest};
  Executor executor_{schedule_, device_, *world_, {.recorded_steps = 4}};
};

TEST_F(OperationCountersTest, GiveProcessorTimeWhereNothingElseIsAllowed) {
  const Trace trace = trace_of_window([](perf_event_attr&, int, int) { return -EACCES; });
  // Less than both steps', or the rest's, have together.
  const auto of_one_step = ::testing::AllOf(::testing::Ge(work), ::testing::Lt(2 * work));
  EXPECT_THAT(measured(trace, "works", "processor_ns"), ElementsAre(of_one_step, of_one_step));
  EXPECT_THAT(measured(trace, "rests", "processor_ns"), ::testing::Each(::testing::Lt(work / 2)));
  EXPECT_EQ(measured(trace, "reduce", "processor_ns").size(), 2U);
  EXPECT_THAT(trace.measures, ElementsAre("processor_ns"));
  EXPECT_THAT(trace.recording.notes,
              ElementsAre(::testing::AllOf(HasSubstr("processor time in place of"),
                                           HasSubstr("CAP_PERFMON"), HasSubstr("ns a reading"))));
}

/// The kernel's own events stand for the processor's: a thread's time in ns for cycles, its page
/// faults for instructions.
int open_software_event(perf_event_attr& event, int thread, int group) {
  event.type = PERF_TYPE_SOFTWARE;
  event.exclude_kernel = 0;
  event.config = group == -1 ? PERF_COUNT_SW_TASK_CLOCK : PERF_COUNT_SW_PAGE_FAULTS;
  return perf_event_call()(event, thread, group);
}

TEST_F(OperationCountersTest, GiveBothCountsOfTheThreadThatRanTheOperation) {
  const OpenedCounter opened = PerfCounter::open(this_thread().id, open_software_event);
  if (!opened.counter) GTEST_SKIP() << opened.why_not;
  const Trace trace = trace_of_window(open_software_event);
  // The two clocks tick apart.
  const auto of_one_step = ::testing::AllOf(::testing::Ge(work - ms), ::testing::Lt(2 * work));
  EXPECT_THAT(measured(trace, "works", "cycles"), ElementsAre(of_one_step, of_one_step));
  EXPECT_THAT(measured(trace, "rests", "cycles"), ::testing::Each(::testing::Lt(work / 2)));
  const auto new_pages =
      ::testing::AllOf(::testing::Ge(fresh_pages), ::testing::Lt(2 * fresh_pages));
  EXPECT_THAT(measured(trace, "works", "instructions"), ElementsAre(new_pages, new_pages));
  EXPECT_THAT(measured(trace, "rests", "instructions"), ::testing::Each(::testing::Lt(10)));
  EXPECT_EQ(measured(trace, "reduce", "cycles").size(), 2U);
  EXPECT_THAT(trace.measures, ElementsAre("cycles", "instructions"));
  EXPECT_THAT(trace.recording.notes, ElementsAre(HasSubstr("cycles and instructions, ")));
}

TEST_F(OperationCountersTest, OpenNothingOutsideOfAWindow) {
  int opened = 0;
  OperationCounters counters(schedule_, threads_of(executor_, 1),
                             [&](perf_event_attr&, int, int) { return ++opened, -ENOENT; });
  executor_.run_step({.learning_rate = 0, .step = 1});
  EXPECT_EQ(opened, 0);
}

}  // namespace
}  // namespace shardscope
