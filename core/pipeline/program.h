// What a rank of a pipeline does in a step: forwards and backwards of its stages, transfers that it
// posts, and where it waits for them. The same form for all schedules.
#pragma once

#include <cstdint>
#include <vector>

#include "core/pipeline/action.h"
#include "core/pipeline/setup.h"

namespace shardscope {

/// A send or receive of a stage's output (forward) or of the gradient of its input (backward).
struct PipelineTransfer {
  Action action;  ///< a send or a receive
  int peer = 0;   ///< rank at the other end
  bool operator==(const PipelineTransfer&) const = default;
};

enum class InstructionKind : std::uint8_t {
  act,   ///< `action`: a forward, a backward, unshard, reshard, reduce_grad, wait_reduce_grad
  post,  ///< starts `transfers`, all at once
  wait   ///< until what the instruction `posted` started has ended
};

struct PipelineInstruction {
  InstructionKind kind = InstructionKind::act;
  Action action;
  std::vector<PipelineTransfer> transfers;
  std::size_t posted = 0;  ///< of wait: index into the program
  bool operator==(const PipelineInstruction&) const = default;
};

using PipelineProgram = std::vector<PipelineInstruction>;

/// By rank. Throws Refusal where PyTorch refuses the setup.
std::vector<PipelineProgram> pipeline_programs(const PipelineSetup& setup);

/// Of GPipe and 1F1B, which PyTorch runs without the lowering: a send and a receive that come
/// together are posted at once.
PipelineProgram single_stage_program(const PipelineSetup& setup, int rank);

}  // namespace shardscope
