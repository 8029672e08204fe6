// What is asked of a plan in the tests of its choices.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/planner/enumerate.h"

namespace shardscope::planner {

/// In fp32, with sequences of 8 tokens.
inline Question question(std::vector<Runtime> runtimes, int world, std::int64_t tokens) {
  return {.runtimes = std::move(runtimes),
          .precisions = {TrainingPrecision::fp32},
          .world = world,
          .tokens_per_batch = tokens,
          .training = {.length = 8}};
}

}  // namespace shardscope::planner
