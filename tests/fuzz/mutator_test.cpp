#include "tests/fuzz/mutator.h"

#include <gtest/gtest.h>

#include <set>

namespace shardscope::fuzz {
namespace {

TEST(Mutator, RepeatsItselfForTheSameSeed) {
  Mutator a({"one", "two"}, 7, 100);
  Mutator b({"one", "two"}, 7, 100);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(a.next(), b.next());
}

TEST(Mutator, DiffersBetweenSeeds) {
  Mutator a({"a longer input to change"}, 1, 100);
  Mutator b({"a longer input to change"}, 2, 100);
  int same = 0;
  for (int i = 0; i < 100; ++i) same += a.next() == b.next() ? 1 : 0;
  EXPECT_LT(same, 10);
}

TEST(Mutator, KeepsTheLimit) {
  Mutator mutator({std::string(90, 'x')}, 1, 100);
  for (int i = 0; i < 1000; ++i) EXPECT_LE(mutator.next().size(), 100U);
}

TEST(Mutator, MakesManyInputsOfAnEmptyOne) {
  Mutator mutator({""}, 1, 100);
  std::set<std::string> inputs;
  for (int i = 0; i < 1000; ++i) inputs.insert(mutator.next());
  EXPECT_GT(inputs.size(), 100U);
}

}  // namespace
}  // namespace shardscope::fuzz
