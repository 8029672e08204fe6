// Bytes of model states, as the plans of the runtimes add them up.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "core/pytorch/plans/module_tree.h"
#include "core/schedule/model_states.h"
#include "core/schedule/strategy.h"

namespace shardscope {

/// Tensors of a parameter's size that the optimizer keeps: Adam's two moments, SGD's momentum.
std::int64_t optimizer_tensors(const Optimizer& optimizer);

/// P of `elements`, and G and OS of the `trained` ones among them, all in one dtype. `states` are
/// the elements that the optimizer keeps states of.
struct StateElements {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t states = 0;
};
ModelStates states_in(Dtype dtype, const StateElements& elements, const Optimizer& optimizer);

ModelStates operator+(const ModelStates& a, const ModelStates& b);
ModelStates operator-(const ModelStates& a, const ModelStates& b);

/// What one device that holds everything would hold; trainable parameters in float32 where
/// `float32_parameters` says so.
ModelStates whole_states(const ModuleTree& tree, const Optimizer& optimizer,
                         bool float32_parameters);

/// The dtype that a parameter is held in.
Dtype held_dtype(const TreeParameter& parameter, bool float32_parameters);

}  // namespace shardscope
