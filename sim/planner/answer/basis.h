// What every part of a plan's answer is computed from.
#pragma once

#include <functional>
#include <stop_token>

#include "sim/cost/cost_model.h"
#include "sim/planner/answer/inputs.h"
#include "sim/planner/estimate.h"
#include "sim/planner/search.h"
#include "sim/planner/trial.h"

namespace shardscope::planner {

/// Inputs with what all trials of their choices share. The inputs must outlive it.
struct Basis {
  explicit Basis(const Inputs& of);
  Basis(const Basis&) = delete;
  Basis& operator=(const Basis&) = delete;

  const Inputs& inputs;
  const CostModel costs;
  mutable Findings findings;
  const TrialInputs trials;
};

/// Who waits for the answer.
struct Watcher {
  std::function<void(const Progress&)> on_progress = {};  ///< called now and then
  std::stop_token stop = {};                              ///< the best so far is the answer
};

}  // namespace shardscope::planner
