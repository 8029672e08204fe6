// Cycles and instructions: counted where the machine allows it, else said why not.
#include "backend/profile/perf_counter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <linux/perf_event.h>
#include <unistd.h>

#include <cerrno>

namespace shardscope {
namespace {

using ::testing::HasSubstr;

OpenPerfEvent refusing(int error) {
  return [error](perf_event_attr&, int, int) { return -error; };
}

struct Refusal {
  const char* name;
  int error;
  const char* says;
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class RefusedPerfEvents : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedPerfEvents, AreNoErrorAndSayWhatWouldHelp) {
  const OpenedCounter opened = PerfCounter::open(gettid(), refusing(GetParam().error));
  EXPECT_FALSE(opened.counter);
  EXPECT_THAT(opened.why_not, HasSubstr(GetParam().says));
  EXPECT_THAT(opened.why_not, ::testing::Not(HasSubstr("\n")));
}

INSTANTIATE_TEST_SUITE_P(Reasons, RefusedPerfEvents,
                         ::testing::Values(Refusal{"not_permitted", EPERM, "CAP_PERFMON"},
                                           Refusal{"no_access", EACCES, "CAP_PERFMON"},
                                           Refusal{"no_counters", ENOENT, "virtual machines"},
                                           Refusal{"no_device", EOPNOTSUPP, "virtual machines"},
                                           Refusal{"no_call", ENOSYS, "no perf events"},
                                           Refusal{"no_descriptor", EMFILE, "ulimit -n"},
                                           Refusal{"anything_else", EINVAL, "Invalid argument"}),
                         [](const auto& refusal) { return std::string(refusal.param.name); });

TEST(PerfCounter, NeedsBothEvents) {
  int calls = 0;
  const OpenedCounter opened = PerfCounter::open(gettid(), [&](perf_event_attr&, int, int group) {
    ++calls;
    return group == -1 ? ::dup(STDERR_FILENO) : -ENOENT;
  });
  EXPECT_EQ(calls, 2);
  EXPECT_FALSE(opened.counter);
}

TEST(PerfCounter, AsksForTheUsersSideOfOneThreadInOneGroup) {
  int descriptor = -1;
  PerfCounter::open(4711, [&](perf_event_attr& event, int thread, int group) {
    EXPECT_TRUE(event.exclude_kernel);
    EXPECT_TRUE(event.exclude_hv);
    EXPECT_FALSE(event.inherit);
    EXPECT_EQ(thread, 4711);
    EXPECT_EQ(group, descriptor);
    if (descriptor == -1) descriptor = ::dup(STDERR_FILENO);
    return descriptor;
  });
}

/// Events of the kernel's own, which it has everywhere: a thread's time (ns) for the cycles, page
/// faults for the instructions.
int open_software_event(perf_event_attr& event, int thread, int group) {
  event.type = PERF_TYPE_SOFTWARE;
  event.config = group == -1 ? PERF_COUNT_SW_TASK_CLOCK : PERF_COUNT_SW_PAGE_FAULTS;
  return perf_event_call()(event, thread, group);
}

TEST(PerfCounter, ReadsBothEventsOfTheGroupInTheirOrder) {
  const OpenedCounter opened = PerfCounter::open(gettid(), open_software_event);
  if (!opened.counter) GTEST_SKIP() << opened.why_not;
  const auto begin = opened.counter->read();
  for (volatile int i = 0; i < 30'000'000;) i = i + 1;
  const auto end = opened.counter->read_own();
  ASSERT_TRUE(begin && end);
  // More than a millisecond of it, and next to no page faults.
  EXPECT_GT(end->cycles - begin->cycles, 1'000'000U);
  EXPECT_LT(end->instructions - begin->instructions, 1000U);
  EXPECT_LT(opened.counter->share_not_counted(), 0.01);
}

#if defined(__x86_64__)
TEST(PerfCounter, CountsALoopsInstructions) {
  const OpenedCounter opened = PerfCounter::open(gettid());
  if (!opened.counter) GTEST_SKIP() << opened.why_not;
  constexpr std::uint64_t rounds = 1'000'000;
  for (const auto read : {&PerfCounter::read, &PerfCounter::read_own}) {
    const auto begin = ((*opened.counter).*read)();
    std::uint64_t left = rounds;
    asm volatile("1: dec %0\n\tjnz 1b" : "+r"(left) : : "cc");
    const auto end = ((*opened.counter).*read)();
    ASSERT_TRUE(begin && end);
    // Two instructions a round, and a reading's own few hundred.
    EXPECT_GE(end->instructions - begin->instructions, 2 * rounds);
    EXPECT_LT(end->instructions - begin->instructions, 2 * rounds + 20'000);
    // A round takes a cycle at least; some processors join the two.
    EXPECT_GE(end->cycles - begin->cycles, rounds / 2);
  }
}
#endif

}  // namespace
}  // namespace shardscope
