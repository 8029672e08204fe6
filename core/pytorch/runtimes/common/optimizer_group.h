// What an optimizer works on at a time. For its own files.
#pragma once

#include <vector>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/runtimes/common/optimizer.h"

namespace shardscope::eager {

struct ParameterOptimizer::Group {
  std::vector<std::size_t> places;  ///< in parameters()
  Tensors parameters;
  Tensors gradients;
  Group* before = nullptr;  ///< that was updated before this one
  /// _multi_tensor_adam's exp_avg_sq_sqrt: a local of the loop over groups, which lives until the
  /// next group has made its own.
  Tensors root;
  Tensors denominator;  ///< of PyTorch 2.0: a local that lives as long as `root`

  /// One member of the state of each parameter.
  Tensors of(const std::vector<State>& states, Tensor State::*member) const {
    Tensors list;
    for (const std::size_t place : places) list.push_back(states[place].*member);
    return list;
  }
};

}  // namespace shardscope::eager
