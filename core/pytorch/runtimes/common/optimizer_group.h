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

  /// One member of the state of each parameter.
  Tensors of(const std::vector<State>& states, Tensor State::*member) const {
    Tensors list;
    for (const std::size_t place : places) list.push_back(states[place].*member);
    return list;
  }
};

}  // namespace shardscope::eager
