// Searches that are told to stop: at their first words and at later ones, while a pipeline is
// recorded, and what they say then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "core/base/error.h"
#include "sim/planner/answer/answer.h"
#include "sim/planner/answer/rounds.h"
#include "sim/planner/estimate.h"
#include "sim/planner/megatron/search.h"
#include "tests/sim/planner/answer/tiny_plan.h"
#include "tests/sim/planner/plan_of_groups.h"
#include "tests/sim/planner/small_gpt.h"

namespace shardscope::planner {
namespace {

/// Requests a stop when it is called for the n-th time, and keeps what was said last.
class StopAt {
 public:
  explicit StopAt(int call) : left_(call) {}

  std::function<void(const Progress&)> watcher() {
    return [this](const Progress& progress) {
      last_ = progress;
      if (--left_ == 0) source_.request_stop();
    };
  }
  std::stop_token token() const { return source_.get_token(); }
  bool was_reached() const { return left_ <= 0; }
  const std::optional<Progress>& last() const { return last_; }

 private:
  int left_;
  std::stop_source source_;
  std::optional<Progress> last_;
};

ExitCode code_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::done;
}

// A pipeline takes a recording for each rank, and its estimate one for each kind of stage.
TEST(StoppedSearch, APipelineIsNotRecordedAfterAStop) {
  const Inputs inputs = plan_of_groups(8, 16);
  const Basis basis(inputs);
  Choice choice{.runtime = Runtime::fsdp2,
                .sharding = ShardingStrategy::shard_grad_op,
                .mesh = {.pipeline = 4, .shard = 2},
                .prefetch = Prefetch::pre,
                .micro_batches = 8,
                .torchtitan = TorchtitanAxes{}};
  std::stop_source source;
  source.request_stop();
  const std::stop_token stop = source.get_token();
  const TrialInputs& on = basis.trials;
  EXPECT_EQ(code_of([&] { try_out(choice, on, stop); }), ExitCode::interrupted);
  EXPECT_EQ(code_of([&] { estimated(choice, on, stop); }), ExitCode::interrupted);
  EXPECT_EQ(code_of([&] { simulate_fully(choice, on, stop); }), ExitCode::interrupted);
  EXPECT_EQ(code_of([&] { try_out(choice, on); }), ExitCode::done);
}

// Whenever it comes: each choice has one outcome, the place is one that was tried and fits, and
// what may be better is not called slower.
TEST(StoppedSearch, SaysOfEveryChoiceWhatIsKnown) {
  const Inputs inputs = plan_of_groups(8, 16);
  const Basis basis(inputs);
  const Enumeration all = choices_of(inputs, 8);
  int stopped = 0;
  for (const int call : {1, 2, 3, 5, 8}) {
    StopAt stop(call);
    const SearchResult found = search(all.choices, basis.trials,
                                      {.groups = all.groups,
                                       .places = 3,
                                       .kind = kind_of,
                                       .on_progress = stop.watcher(),
                                       .stop = stop.token()});
    EXPECT_EQ(found.interrupted, stop.was_reached()) << call;
    const std::size_t choices = all.choices.size() + found.opened.size();
    EXPECT_EQ(found.ranked.size() + found.others.size(), choices) << call;
    if (!stop.was_reached()) continue;
    ++stopped;
    for (const Ranked& ranked : found.ranked) EXPECT_TRUE(ranked.full.fits) << call;
    if (found.ranked.empty()) continue;
    const Duration best = found.ranked.front().trial.time.span;
    for (const Outcome& outcome : found.others) {
      if (outcome.reason != Reason::slower) continue;
      EXPECT_GE(outcome.time, best) << call;
    }
  }
  EXPECT_GT(stopped, 0);
}

// The best that was shown is the answer: memory is enough for every layout that was tried.
TEST(StoppedSearch, TheAnswerHasTheBestThatWasShown) {
  Inputs inputs = tiny_plan();
  StopAt stop(1);
  const Answer found = answer(inputs, {.on_progress = stop.watcher(), .stop = stop.token()});
  ASSERT_TRUE(stop.was_reached());
  ASSERT_TRUE(stop.last()->best);
  EXPECT_TRUE(found.interrupted);
  ASSERT_FALSE(found.candidates.empty());
  EXPECT_EQ(found.candidates.front().summary.step_time, *stop.last()->best);
  EXPECT_TRUE(found.written);
  EXPECT_EQ(found.ways.size() + found.in_groups, found.choices);
}

// Without any time there is no place, and nothing that was simulated.
TEST(StoppedSearch, BeforeItsStartItHasNoPlace) {
  std::stop_source source;
  source.request_stop();
  const Answer found = answer(plan_of_groups(8, 16), {.stop = source.get_token()});
  EXPECT_TRUE(found.interrupted);
  EXPECT_TRUE(found.candidates.empty());
  EXPECT_EQ(found.simulated, 0U);
  EXPECT_FALSE(found.written);
}

// Megatron-LM's layouts: stopped when the first best one is shown, that one is the answer.
TEST(StoppedSearch, OfMegatronTheAnswerHasTheBestThatWasShown) {
  const MegatronQuestion question{
      .training = small_gpt(), .profile = plan_of_groups(8, 16).profile, .places = 4};
  std::stop_source source;
  std::optional<Duration> shown;
  const MegatronAnswer found = plan_megatron(question, {.on_progress =
                                                            [&](const MegatronProgress& progress) {
                                                              if (!progress.best || shown) return;
                                                              shown = progress.best;
                                                              source.request_stop();
                                                            },
                                                        .stop = source.get_token()});
  EXPECT_TRUE(found.interrupted);
  ASSERT_TRUE(shown);
  ASSERT_FALSE(found.places.empty());
  EXPECT_EQ(found.places.front().summary.step_time, *shown);
  EXPECT_LT(found.predicted, plan_megatron(question).predicted);
}

}  // namespace
}  // namespace shardscope::planner
