// Timelines worked out by hand. Each test states the operations, the expectation, and then runs the
// engine.
#include "sim/engine/event_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/sim/schedule_by_hand.h"

namespace shardscope {
namespace {

using testing::MachineByHand;
using testing::ScheduleByHand;
using testing::text_of;

const MachineByHand gpu{.host = HostRole::issues};
const MachineByHand cpu{.host = HostRole::computes};

TEST(EventEngine, StreamsRunInOrderAndSideBySide) {
  // compute: A 10, B 5; unshard: G 7. Nothing waits across streams.
  // compute  |A 0-10      |B 10-15|
  // unshard  |G 0-7  |
  ScheduleByHand s;
  s.compute(10_us);
  s.all_gather(7_us);
  s.compute(5_us);
  EXPECT_EQ(text_of(s.play(gpu)), "0-10 0-7 10-15");
}

TEST(EventEngine, AnOperationWaitsForWhatItIsAfter) {
  // G 7 on unshard; A 3 needs G; B 4 follows A on its stream; R 2 on reduce needs A only.
  // unshard  |G 0-7      |
  // compute              |A 7-10|B 10-14|
  // reduce                      |R 10-12|
  ScheduleByHand s;
  const OperationId gather = s.all_gather(7_us);
  const OperationId a = s.compute(3_us, {gather});
  s.compute(4_us);
  s.reduce_scatter(2_us, {a});
  EXPECT_EQ(text_of(s.play(gpu)), "0-7 7-10 10-14 10-12");
}

TEST(EventEngine, SerialCollectivesShareOneChannelInIssueOrder) {
  // R 5 (reduce) is issued before G 3 (unshard) but must wait for A 10: G waits behind it.
  // compute  |A 0-10|
  // reduce          |R 10-15|
  // unshard                 |G 15-18|
  ScheduleByHand s;
  const OperationId a = s.compute(10_us);
  s.reduce_scatter(5_us, {a});
  s.all_gather(3_us);
  EXPECT_EQ(text_of(s.play(gpu)), "0-10 10-15 15-18");
}

TEST(EventEngine, CollectivesOfDifferentStreamsOverlapWhereTheChannelIsNotSerial) {
  ScheduleByHand s;
  const OperationId a = s.compute(10_us);
  s.reduce_scatter(5_us, {a});
  s.all_gather(3_us);
  MachineByHand options = gpu;
  options.sharing.collectives_serial = false;
  EXPECT_EQ(text_of(s.play(options)), "0-10 10-15 0-3");
}

TEST(EventEngine, AHostThatComputesIssuesNothingBeforeItsComputeHasEnded) {
  // The same three on a CPU: G is issued when A has ended and R is submitted. On a GPU it would
  // start at 0. host     |A 0-10|C 10-12| channel         |G 10-13|
  ScheduleByHand s;
  s.compute(10_us);
  s.all_gather(3_us);
  s.compute(2_us);
  EXPECT_EQ(text_of(s.play(cpu)), "0-10 10-13 10-12");
  EXPECT_EQ(text_of(s.play(gpu)), "0-10 0-3 10-12");
}

TEST(EventEngine, AHostThatComputesIsHeldUpByAWaitingKernel) {
  // G1 6; A 2 needs G1; G2 4 is issued after A. The host stands in A's wait until 6, so G2 starts
  // at 8, not at 6. host            |A 6-8| channel  |G1 0-6|     |G2 8-12|
  ScheduleByHand s;
  const OperationId first = s.all_gather(6_us);
  s.compute(2_us, {first});
  s.all_gather(4_us);
  EXPECT_EQ(text_of(s.play(cpu)), "0-6 6-8 8-12");
}

TEST(EventEngine, TheHostIssuesOneOperationEveryOverhead) {
  // Overhead 4: A 10 is issued at 4, B 1 at 8, G 1 at 12. B follows A on the stream.
  ScheduleByHand s;
  s.compute(10_us);
  s.compute(1_us);
  s.all_gather(1_us);
  MachineByHand options = gpu;
  options.issue_overhead = 4_us;
  const OperationMoments times = s.play(options);
  EXPECT_EQ(text_of(times), "4-14 14-15 12-13");
  EXPECT_THAT(times.issued, ::testing::ElementsAre(4_us, 8_us, 12_us));
}

TEST(EventEngine, AHostThatComputesPaysTheOverheadBetweenKernels) {
  // 2 + A 10, 2 + B 5: the device is idle in between.
  ScheduleByHand s;
  s.compute(10_us);
  s.compute(5_us);
  MachineByHand options = cpu;
  options.issue_overhead = 2_us;
  EXPECT_EQ(text_of(s.play(options)), "2-12 14-19");
}

TEST(EventEngine, AHostOperationHoldsUpWhatIsIssuedAfterIt) {
  // A 10; H 1 on the host waits for A; B 5 on unshard needs nothing but is issued after H.
  ScheduleByHand s;
  const OperationId a = s.compute(10_us);
  s.add({.kind = OperationKind::host, .stream = Stream::host, .time = 1_us, .after = {a}});
  s.all_gather(5_us);
  EXPECT_EQ(text_of(s.play(gpu)), "0-10 10-11 11-16");
}

TEST(EventEngine, ComputeIsSlowedOnlyWhileACollectiveRuns) {
  // A 10 and G 4 together, compute slowed by 2. In 4 us A has done 2, then 8 are left: A 0-12.
  ScheduleByHand s;
  s.all_gather(4_us);
  s.compute(10_us);
  MachineByHand options = cpu;
  options.sharing.compute_slowdown = 2;
  EXPECT_EQ(text_of(s.play(options)), "0-4 0-12");
}

TEST(EventEngine, ACollectiveIsSlowedOnlyWhileComputeRuns) {
  // G 10 and A 6 together, collectives slowed by 3. In 6 us G has done 2, then 8 are left: G 0-14.
  ScheduleByHand s;
  s.all_gather(10_us);
  s.compute(6_us);
  MachineByHand options = cpu;
  options.sharing.collective_slowdown = 3;
  EXPECT_EQ(text_of(s.play(options)), "0-14 0-6");
}

TEST(EventEngine, SlowdownsFollowEveryChangeOfWhatRuns) {
  // G 6, A 4, then B 4 after G; both slowed by 2.
  // 0-8: A and G together, A done at 8 (4 x 2), G has 2 left; 8-10: G alone, done at 10; B alone
  // 10-14.
  ScheduleByHand s;
  const OperationId gather = s.all_gather(6_us);
  s.compute(4_us);
  s.compute(4_us, {gather});
  MachineByHand options = cpu;
  options.sharing.compute_slowdown = 2;
  options.sharing.collective_slowdown = 2;
  EXPECT_EQ(text_of(s.play(options)), "0-10 0-8 10-14");
}

/// Both need the one core.
MachineByHand one_core() {
  MachineByHand options = cpu;
  options.sharing.compute_waits = true;
  return options;
}

TEST(EventEngine, AKernelWaitsForACollectiveThatHasItsCore) {
  // G 4 is issued first; A 10 starts at 4, then B 2.
  ScheduleByHand s;
  s.all_gather(4_us);
  s.compute(10_us);
  s.compute(2_us);
  EXPECT_EQ(text_of(s.play(one_core())), "0-4 4-14 14-16");
}

TEST(EventEngine, ACollectiveGoesBeforeAKernelThatCouldStartAtTheSameMoment) {
  // A 3, then G 4 after it takes the core before B 2; R 5 after B likewise before C 1.
  ScheduleByHand s;
  const OperationId a = s.compute(3_us);
  s.all_gather(4_us, {a});
  const OperationId b = s.compute(2_us);
  s.reduce_scatter(5_us, {b});
  s.compute(1_us);
  EXPECT_EQ(text_of(s.play(one_core())), "0-3 3-7 7-9 9-14 14-15");
}

/// Ranks that come as late as they have computed.
MachineByHand straggling_cpu() {
  MachineByHand options = cpu;
  options.straggling = {{10_us, 10_us}};
  return options;
}

TEST(EventEngine, ACollectiveBeginsWhenTheLastRankHasCome) {
  // R 4 is issued after A 10, so that the last rank comes at 20: R 10-24. B 5 is not slowed before.
  // C 3 waits for R, where ranks meet: R2 4, issued at 27, waits 3 for the last, and not 18.
  ScheduleByHand s;
  s.compute(10_us);
  const OperationId reduction = s.reduce_scatter(4_us);
  s.compute(5_us);
  s.compute(3_us, {reduction});
  s.reduce_scatter(4_us);
  MachineByHand options = straggling_cpu();
  options.sharing.compute_slowdown = 2;
  EXPECT_EQ(text_of(s.play(options)), "0-10 10-24 10-15 24-27 27-34");
}

TEST(EventEngine, RanksTakeTurnsAtBeingTheLast) {
  // The mean wait of R1 4 is 10: 10-24. This rank is not the last, so that B 50, slowed by 2 while
  // R1 runs, has done 12 of it at 24: 10-62. R2 4 waits 62: at 124 it is this rank's turn to be the
  // last, and C 70 stands still until 128, with 8 left: it ends at 136 as if it had begun at 66.
  ScheduleByHand s;
  s.compute(10_us);
  s.reduce_scatter(4_us);
  s.compute(50_us);
  s.reduce_scatter(4_us);
  s.compute(70_us);
  MachineByHand options = straggling_cpu();
  options.sharing.compute_slowdown = 2;
  options.sharing.compute_waits = true;
  options.straggling_ranks = 2;
  EXPECT_EQ(text_of(s.play(options)), "0-10 10-24 10-62 62-128 66-136");
}

TEST(EventEngine, ACollectiveThatWaitsForTheLastRankLeavesTheCoreToKernels) {
  // R 4 is issued at 10, the last rank comes at 20: B 11 starts at 10, has 1 left at 20, slowed by
  // 2 it ends at 22. C 1 waits for the core until R has ended at 24.
  ScheduleByHand s;
  s.compute(10_us);
  s.reduce_scatter(4_us);
  s.compute(11_us);
  s.compute(1_us);
  MachineByHand options = straggling_cpu();
  options.sharing.compute_slowdown = 2;
  options.sharing.compute_waits = true;
  EXPECT_EQ(text_of(s.play(options)), "0-10 10-24 10-22 24-25");
}

TEST(EventEngine, ACollectiveThatIsHeldUpWaitsTheLessForTheLastRank) {
  // The last rank comes to R1 20, and to R2 12 (issued at 22): at 44. R1 30 ends at 50, so R2 does
  // not wait: 50-51.
  ScheduleByHand s;
  s.compute(10_us);
  s.reduce_scatter(30_us);
  s.compute(12_us);
  s.reduce_scatter(1_us);
  EXPECT_EQ(text_of(s.play(straggling_cpu())), "0-10 10-50 10-22 50-51");
}

TEST(EventEngine, RanksStraggleFromOneStepIntoTheNext) {
  // G 2 at once in the first step; A 3 after it, where ranks meet. The second step is issued at 5
  // and has 3 of the first: G 5-10, with 3 of waiting.
  ScheduleByHand s;
  const OperationId gather = s.all_gather(2_us);
  s.compute(3_us, {gather});
  EXPECT_EQ(text_of(s.play(straggling_cpu())), "0-2 2-5");
  EXPECT_EQ(text_of(s.play(straggling_cpu(), 2)), "5-10 10-13");
}

TEST(EventEngine, CopiesSlowNothingDown) {
  ScheduleByHand s;
  s.add({.kind = OperationKind::copy, .stream = Stream::copy, .time = 7_us});
  s.compute(5_us);
  MachineByHand options = gpu;
  options.sharing.compute_slowdown = 2;
  options.sharing.collective_slowdown = 2;
  EXPECT_EQ(text_of(s.play(options)), "0-7 0-5");
}

TEST(EventEngine, FractionsOfANanosecondAreRoundedUpOnce) {
  // A 3 ns slowed by 1.5 while G 10 ns runs: 4.5 ns, so it ends at 5 ns.
  ScheduleByHand s;
  s.all_gather(10_ns);
  s.compute(3_ns);
  MachineByHand options = cpu;
  options.sharing.compute_slowdown = 1.5;
  EXPECT_EQ(s.play(options).end[1], 5_ns);
}

TEST(EventEngine, OperationsWithoutLengthEndWhenTheyStart) {
  ScheduleByHand s;
  const OperationId a = s.compute(3_us);
  const OperationId wait = s.compute(0_us, {a});
  s.compute(2_us, {wait});
  EXPECT_EQ(text_of(s.play(gpu)), "0-3 3-3 3-5");
}

TEST(EventEngine, AnEmptyScheduleTakesNoTime) {
  EXPECT_EQ(text_of(ScheduleByHand().play(cpu)), "");
}

TEST(EventEngine, OperationsThatWaitForEachOtherAreAnError) {
  ScheduleByHand s;
  s.compute(1_us, {OperationId::of(1)});
  s.compute(1_us);
  EXPECT_THROW(s.play(gpu), Error);
}

/// Two devices of a host, each with one operation: what it is, how long, and when it is issued.
struct Issued {
  Share share;
  Duration time, at;
};
std::vector<Duration> ends_of(const Issued& first, const Issued& second, StepCosts costs) {
  costs.times = {first.time, second.time};
  OperationMoments moments(2);
  EventEngine engine(costs, 1, moments, 2);
  std::uint32_t subject = 0;
  for (const Issued& one : {first, second}) {
    engine.issue(engine.new_lane(subject), {.share = one.share, .subject = subject}, one.at.ns);
    ++subject;
  }
  engine.finish();
  return moments.end;
}

TEST(EventEngine, ADeviceComputesFasterWhileThoseThatShareItsCoresWait) {
  // A kernel alone takes half its time. A 10 has done 8 at 4, when B 10 begins: both run at their
  // own pace until A ends at 6. B has done 2 by then, and 8 more take it 4.
  const StepCosts costs{.times = {}, .uses = {}, .clock = {}, .core_sharing = {0.5, 1}};
  const auto ends = ends_of({Share::compute, 10_us, 0_us}, {Share::compute, 10_us, 4_us}, costs);
  EXPECT_EQ(ends, (std::vector{6_us, 10_us}));
}

TEST(EventEngine, KernelsThatFollowEachOtherKeepTheirShareOfTheCores) {
  // A 10 and then A 6, alone on cores of which each takes half its time: 5, and 3 more.
  StepCosts costs{.times = {10_us, 6_us}, .uses = {}, .clock = {}, .core_sharing = {0.5, 1}};
  OperationMoments moments(2);
  EventEngine engine(costs, 1, moments, 2);
  const std::size_t lane = engine.new_lane(0);
  engine.issue(lane, {.share = Share::compute, .subject = 0}, 0);
  engine.issue(lane, {.share = Share::compute, .subject = 1}, 0);
  engine.finish();
  EXPECT_EQ(moments.end, (std::vector{5_us, 8_us}));
}

TEST(EventEngine, ACollectiveKeepsACoreOfTheHostBusyWhereItNeedsOneThatComputes) {
  // G 4 beside A 10: A has done 4 when G ends, and 6 more take it 3. G itself takes its time. Where
  // communication has cores of its own, A takes half its time.
  StepCosts costs{.times = {}, .uses = {}, .clock = {}, .core_sharing = {0.5, 1}};
  const Issued kernel{Share::compute, 10_us, 0_us}, gather{Share::collective, 4_us, 0_us};
  EXPECT_EQ(ends_of(kernel, gather, costs), (std::vector{5_us, 4_us}));
  costs.clock.sharing.compute_waits = true;
  EXPECT_EQ(ends_of(kernel, gather, costs), (std::vector{7_us, 4_us}));
}

TEST(EventEngine, DevicesWithCoresOfTheirOwnDoNotMindEachOther) {
  const StepCosts costs{.times = {}, .uses = {}, .clock = {}};
  const auto ends = ends_of({Share::compute, 10_us, 0_us}, {Share::compute, 10_us, 4_us}, costs);
  EXPECT_EQ(ends, (std::vector{10_us, 14_us}));
}

}  // namespace
}  // namespace shardscope
