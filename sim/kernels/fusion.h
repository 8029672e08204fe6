// Fusion: what a schedule's kernels become where a compiler, or kernels written by hand, run
// several operators as one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/schedule/compile_scope.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// Which neighbouring operators run as one kernel.
enum class KernelFusion : std::uint8_t {
  none,      ///< eager PyTorch
  loss,      ///< the loss alone: flash-attention's cross entropy
  by_hand,   ///< Megatron-LM's, apex's and flash-attention's: softmax with its mask, activations
             ///< and residual additions; norms stand alone
  compiled,  ///< torch.compile: whatever lies between products
  xla,       ///< the same, and the host issues a step at once
};
std::string_view name_of(KernelFusion fusion);

/// Kernels that run in the place of those that were recorded.
struct KernelChoices {
  KernelFusion fusion = KernelFusion::none;
  std::optional<AttentionLibrary> attention;  ///< none: as recorded
  CompileScope scope = CompileScope::none;    ///< of `compiled`; none: whatever the lane runs
  bool fuses_attention = true;                ///< by_hand: false: attention's operators run alone
  bool operator==(const KernelChoices&) const = default;
};

/// Indices of operations of a schedule, in order, which one kernel could do at once.
using FusedRun = std::vector<std::uint32_t>;

/// Every run of a recorded schedule, runs of one operation too; by their first operation.
std::vector<FusedRun> fused_runs(const Schedule& schedule, const KernelChoices& choices);

/// The graph that torch.compile makes an operation a part of: "model"; or a block's name, and
/// "loss" for what runs outside of the model. "" of what is not compiled.
std::string_view compiled_graph(const Schedule& schedule, const Operation& op, CompileScope scope);

/// A run is a sequence of operators on one lane that a kernel could do at once: pointwise, norms,
/// softmax, reductions, dropout, casts, gathers, without a wait between them. Its first operator
/// moves what the run reads from before it and what is read after it, once each; the others are
/// not launched. Attention's softmax by hand is causal: it reads half of its scores, and half of
/// their gradients. Expects a recorded schedule, whose operations name their operands.
/// Example: y = gelu(x + b) with 100-byte x, y and an inner value, b of 10 bytes: 210 bytes for
/// (x + b), 200 for gelu; as one kernel 210.
Schedule with_kernels(Schedule schedule, const KernelChoices& choices);

}  // namespace shardscope
