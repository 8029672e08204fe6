// Bounds of torchtitan's choices beside their trials.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "sim/planner/answer/basis.h"
#include "sim/planner/answer/inputs.h"
#include "sim/planner/bounds.h"
#include "sim/planner/trial.h"

namespace shardscope::planner {

/// So many of them, drawn at random.
inline std::vector<Choice> drawn(std::vector<Choice> choices, std::size_t count) {
  std::mt19937 random(7);
  std::ranges::shuffle(choices, random);
  if (choices.size() > count) choices.resize(count);
  return choices;
}

/// Of so many choices of the inputs: floors <= bounds <= trials, in time and memory.
inline void expect_bounds_hold(const Inputs& inputs, std::size_t count) {
  const Basis basis(inputs);
  const std::vector<Choice> choices =
      drawn(choices_of(inputs, inputs.question.world).choices, count);
  const std::vector<Bounds> bounds = bounds_of(choices, basis.trials, 0);
  const std::vector<Bounds> floors = floors_of(choices, basis.trials, 0);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Trial trial = try_out(choices[i], basis.trials);
    EXPECT_GT(floors[i].time, Duration{}) << text_of(choices[i]);
    EXPECT_LE(floors[i].time, bounds[i].time) << text_of(choices[i]);
    EXPECT_LE(floors[i].memory, bounds[i].memory) << text_of(choices[i]);
    EXPECT_GT(bounds[i].time, Duration{}) << text_of(choices[i]);
    EXPECT_GT(bounds[i].memory, Bytes{}) << text_of(choices[i]);
    EXPECT_LE(bounds[i].time, trial.time.span) << text_of(choices[i]);
    EXPECT_LE(bounds[i].memory, trial.needed()) << text_of(choices[i]);
  }
}

}  // namespace shardscope::planner
