// What a schedule takes from the device that it is made for. Prediction and execution give the
// same, and so see the same schedule.
#pragma once

#include <functional>

#include "core/kernel.h"
#include "core/lower/logits_chunks.h"
#include "core/quantities.h"

namespace shardscope {

/// Scratch that the device wants for a kernel. The CPU device's comes from oneDNN.
using WorkspaceQuery = std::function<Bytes(const Kernel&)>;

/// Neighbouring operators that the device would rather run as one kernel. Every device has a kernel
/// for each; where joining does not pay, it says no.
struct Fusions {
  /// A linear layer with the gelu_tanh of its output, and in the backward the product that gives
  /// gelu's gradient with its derivative: of the 7 R F elements that outputs and gelus move apart
  /// 4 R F are left.
  bool linear_gelu = false;
  bool operator==(const Fusions&) const = default;
};

struct Target {
  WorkspaceQuery workspace;  ///< null: no scratch
  Fusions fusions;
  Bytes logits = most_logits;  ///< that may exist at once
};

}  // namespace shardscope
