#include "cli/pipeline_notes.h"

#include <fmt/format.h>

namespace shardscope {

std::string few_micro_batches(const PipelineSetup& setup) {
  if (setup.ranks == 1 || setup.micro_batches >= setup.stages()) return {};
  const double waiting = setup.ranks - 1;
  const double working = static_cast<double>(setup.stages_per_rank) * setup.micro_batches;
  // Where the weights' gradients come later, they fill a part of it.
  const std::string_view bound = splits_backward(setup.kind) ? "at most " : "";
  return fmt::format(
      "{} micro-batch{} fewer than {} stages: ranks wait {}{:.0f}% of the step where stages "
      "compute "
      "equally long (the bubble); more micro-batches (--accumulate) make it smaller",
      setup.micro_batches, setup.micro_batches == 1 ? " is" : "es are", setup.stages(), bound,
      100 * waiting / (working + waiting));
}

void note_few_micro_batches(const PipelineSetup& setup, const OutputOptions& output) {
  if (const std::string text = few_micro_batches(setup); !text.empty()) output.note(text);
}

}  // namespace shardscope
