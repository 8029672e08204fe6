// What a schedule takes from the device that it is made for. Prediction and execution give the
// same, and so see the same schedule.
#pragma once

#include <functional>

#include "core/base/quantities.h"
#include "core/schedule/host_program.h"
#include "core/schedule/kernel.h"

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

/// Of logits at once, unless a device says otherwise. Every further chunk reads and writes the
/// weight's gradient once more: of a head [V,C] with float32 gradients 8 V C bytes for 6 r V C
/// flops over r rows, so that at 700 TFLOP/s and 3 TB/s the 10,680 rows of GPT-2's logits
/// (bfloat16) in 1 GiB lose 3% of the head's time.
inline constexpr Bytes most_logits{std::int64_t{1} << 30};

struct Target {
  HostRole host = HostRole::issues;
  WorkspaceQuery workspace;  ///< null: no scratch
  Fusions fusions;
  Bytes logits = most_logits;  ///< that may exist at once
};

}  // namespace shardscope
