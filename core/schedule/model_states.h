// Bytes of model states: parameters, gradients and optimizer states.
#pragma once

#include <cstdint>

#include "core/base/precision.h"
#include "core/base/quantities.h"
#include "core/schedule/strategy.h"

namespace shardscope {

/// Bytes of model states, whole or of one rank.
struct ModelStates {
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer_states;
  bool operator==(const ModelStates&) const = default;
};

/// Optimizer bytes per element, the paper's K. Adam and AdamW: two float32 moments = 8; SGD: 4 with
/// momentum, else 0; in mixed precision 4 more for the float32 copy of the parameters, so K = 12
/// for Adam. All in bfloat16: 4 for Adam, 2 for momentum.
std::int64_t optimizer_bytes_per_element(const Optimizer& optimizer, Precision precision);

}  // namespace shardscope
