#include "sim/planner/answer/ways.h"

#include <gtest/gtest.h>

#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {
namespace {

class Ways : public ::testing::Test {
 protected:
  /// The first has a place, the second was bounded, the third refused, the fourth did not come to
  /// a place among several numbers of ranks.
  Ways() {
    for (const std::int64_t batch : {1, 2, 4, 8}) {
      weighed_.choices.push_back(tiny_choice());
      weighed_.choices.back().batch = batch;
    }
    weighed_.ranked = {0, 3};
    weighed_.tried = {{.choice = 0, .reason = Reason::slower, .time = 10_us, .memory = 1_GiB},
                      {.choice = 3, .reason = Reason::slower, .time = 30_us, .memory = 2_GiB}};
    weighed_.others = {{.choice = 1, .reason = Reason::bounded, .time = 20_us, .memory = 3_GiB},
                       {.choice = 2, .reason = Reason::refused, .text = "no, \"never\""}};
    best_.choice = weighed_.choices[0];
    best_.place = 1;
  }
  std::vector<Way> ways() const { return ways_of(weighed_, std::span(&best_, 1), 1, basis_); }

  Inputs inputs_ = tiny_plan();
  Basis basis_{inputs_};
  Weighed weighed_;
  Candidate best_ = candidate_with({15, 0, 1_GiB});
};

TEST_F(Ways, AreAllThatWereWeighed) {
  const std::vector<Way> all = ways();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].outcome, "place");
  EXPECT_EQ(all[0].place, 1);
  EXPECT_EQ(all[0].time, Duration{15'000'000});
  EXPECT_EQ(all[1].outcome, "bounded");
  EXPECT_EQ(all[1].why,
            "takes at least 20.0 us a step; place 1 of the same strategy takes 15.0 ms");
  EXPECT_EQ(all[2].outcome, "refused");
  EXPECT_EQ(all[3].outcome, "slower");
  EXPECT_EQ(all[3].memory, 2_GiB);
}

// Another strategy has to beat the last place by time. One that is there because it is small says
// nothing of who is too slow.
TEST_F(Ways, AreComparedWithThePlaceThatTheyHadToBeat) {
  std::vector<Candidate> candidates{best_, best_};
  candidates[1].choice = weighed_.choices[3];
  candidates[1].place = 2;
  candidates[1].summary.step_time = 90_ms;
  weighed_.choices[1].runtime = Runtime::ddp;
  const std::vector<Way> all = ways_of(weighed_, candidates, 1, basis_);
  EXPECT_EQ(all[3].outcome, "place");
  EXPECT_EQ(all[1].why, "takes at least 20.0 us a step; the last place takes 15.0 ms");
}

// Torchtitan's axes end the line: of its one layout 2 ranks of context, and 4 of tensor. A dense
// model has no ranks of experts.
TEST_F(Ways, HaveTorchtitansAxes) {
  Way way{.choice = best_.choice};
  way.choice.torchtitan = TorchtitanAxes{.context = 2, .tensor = 4};
  EXPECT_NE(ways_csv({&way, 1}).find("\n,,torchtitan,full_shard,1,4,"), std::string::npos);
  EXPECT_TRUE(ways_csv({&way, 1}).ends_with(",,,,,,2,4,\n"));
}

TEST_F(Ways, AsLinesOfATable) {
  const std::string text = ways_csv(ways());
  EXPECT_NE(text.find("\n1,place,fsdp2,full_shard,1,4,1,pre,1,1,false,none,none,bf16_mixed,"
                      "15000000,1073741824,,,,,,,,,,\n"),
            std::string::npos)
      << text;
  // A comma and quotes stand in quotes; what is not known is blank.
  EXPECT_NE(text.find("\n,refused,fsdp2,full_shard,1,4,1,pre,4,1,false,none,none,bf16_mixed,,,"
                      "\"no, \"\"never\"\"\",,,,,,,,,\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace shardscope::planner
