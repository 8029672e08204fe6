#include "sim/planner/plain_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/sim/schedule_by_hand.h"

namespace shardscope::planner {
namespace {

using ::testing::ElementsAre;
using testing::ScheduleByHand;

// The second one ends while the first is waited for, where its communicator is another.
TEST(AwaitedCollectives, AreNotWaitedForTwice) {
  ScheduleByHand by_hand;
  const OperationId first = by_hand.all_gather(10_us);
  const OperationId second = by_hand.reduce_scatter(12_us);
  by_hand.compute(1_us, {first});
  by_hand.compute(1_us, {second});
  EXPECT_THAT(awaited_collectives(by_hand.schedule(), {10_us, 12_us, 1_us, 1_us}),
              ElementsAre(10_us, 1_us, Duration{}, Duration{}));
}

// What runs beside a collective before somebody waits for it is not waited for.
TEST(AwaitedCollectives, RunBesideKernels) {
  ScheduleByHand by_hand;
  const OperationId gather = by_hand.all_gather(10_us);
  by_hand.compute(4_us);
  by_hand.compute(1_us, {gather});
  EXPECT_THAT(awaited_collectives(by_hand.schedule(), {10_us, 4_us, 1_us}),
              ElementsAre(6_us, Duration{}, Duration{}));
}

/// Collectives of two communicators, each issued behind a kernel and waited for by a later one.
class RandomStep {
 public:
  explicit RandomStep(unsigned seed) : random_(seed) {
    add_kernel({});
    by_hand_.schedule().groups.push_back({.name = "others", .ranks = {0, 1}});
    by_hand_.schedule().collectives.push_back(
        {.group = GroupId::of(1), .elements_in = 1, .elements_out = 2});
    std::vector<OperationId> open;
    for (int i = 0; i < 40; ++i) {
      if (draw(2) == 0) {
        open.push_back(add_collective());
        continue;
      }
      std::vector<OperationId> waited;
      if (!open.empty() && draw(2) == 0) {
        const auto at = static_cast<std::ptrdiff_t>(draw(static_cast<int>(open.size())));
        waited.push_back(open[static_cast<std::size_t>(at)]);
        open.erase(open.begin() + at);
      }
      add_kernel(waited);
    }
    add_kernel(open);
  }

  Duration bound() const {
    Duration bound = computing_;
    for (const Duration wait : awaited_collectives(by_hand_.schedule(), times_)) bound += wait;
    return bound;
  }
  Duration played() const {
    return by_hand_.play({.sharing = {.communicators_apart = true}}).end.back();
  }

 private:
  int draw(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  Duration time() { return 1_us * (1 + draw(20)); }

  void add_kernel(const std::vector<OperationId>& after) {
    times_.push_back(time());
    computing_ += times_.back();
    last_ = by_hand_.compute(times_.back(), after);
  }
  OperationId add_collective() {
    times_.push_back(time());
    const bool is_other = draw(2) == 0;
    const OperationId id = is_other ? by_hand_.reduce_scatter(times_.back(), {last_})
                                    : by_hand_.all_gather(times_.back(), {last_});
    by_hand_.schedule().operations[id.value].detail = is_other ? 1 : 0;
    return id;
  }

  std::mt19937 random_;
  ScheduleByHand by_hand_;
  std::vector<Duration> times_;
  Duration computing_;
  OperationId last_;
};

TEST(AwaitedCollectives, NoStepIsShorterThanItsKernelsAndWaits) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const RandomStep step(seed);
    EXPECT_LE(step.bound(), step.played()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace shardscope::planner
