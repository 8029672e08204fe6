// Gathering one unit's optimizer states. For optimizer_state.cpp.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "core/pytorch/runtimes/fsdp1/optimizer_state.h"

namespace shardscope::eager::fsdp1 {

using OptimizerState = ParameterOptimizer::State;
/// The tensors of a state that have dimensions, by name in Python's order.
struct NamedState {
  std::string_view name;
  Tensor OptimizerState::*member;
};
inline constexpr NamedState named_states[] = {
    {"exp_avg", &OptimizerState::first_moment},
    {"exp_avg_sq", &OptimizerState::second_moment},
    {"max_exp_avg_sq", &OptimizerState::greatest_moment},
};

/// What becomes of a gathered state.
struct SavedForm {
  const Unit& unit;
  const OptimizerStateOptions& options;
  bool saves = true;
};

/// _communicate_optim_state and _unflatten_communicated_optim_state: of a flat parameter.
void gather_flat_state(Session& s, const SavedForm& form, const OptimizerState& state,
                       StateDict& into);

/// _gather_all_orig_param_state: of the parameters of a unit, each on the ranks that hold a part;
/// `states` in flat order, null: none here.
void gather_original_states(Session& s, const SavedForm& form,
                            const std::vector<const OptimizerState*>& states, StateDict& into);

}  // namespace shardscope::eager::fsdp1
