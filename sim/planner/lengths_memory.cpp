#include "sim/planner/lengths_memory.h"

#include <algorithm>

#include "sim/planner/memory_play.h"

namespace shardscope::planner {
namespace {

bool reach_the_model(const eager::TrainingSetup& setup, const Model& model) {
  return !setup.loop.flattens && !setup.model.packed && !model.step &&
         setup.compiled == CompileScope::none;
}

/// Whether a mask that pads reaches the attention. Unsloth and litgpt have none; a kernel of
/// FlashAttention takes the sequences without their padding.
bool masks(const eager::TrainingSetup& setup, const Model& model) {
  const bool unsloth = setup.fine_tuning && setup.fine_tuning->unsloth;
  return !unsloth && model.family != "litgpt" && !setup.model.torchtitan_attention &&
         (setup.model.attention == eager::AttentionImplementation::sdpa ||
          setup.model.attention == eager::AttentionImplementation::eager);
}

}  // namespace

std::optional<LengthsMemory> memory_of_lengths(const PytorchTraining& training, const Model& model,
                                               const JsonValue& config,
                                               const HardwareProfile& profile,
                                               const SequenceLengths& lengths) {
  if (!reach_the_model(training.setup, model)) return std::nullopt;
  constexpr std::int64_t most = 1000;
  eager::TrainingSetup setup = training.setup;
  eager::TrainingSettings& loop = setup.loop;
  const auto count = static_cast<std::int64_t>(lengths.ascending.size());
  LengthsMemory memory{.micro_batches =
                           static_cast<int>(std::clamp<std::int64_t>(count / loop.batch, 1, most))};
  loop.lengths =
      growing_lengths(padded_run(lengths, loop.length, loop.sequences(), memory.micro_batches));
  loop.length = memory.longest = loop.lengths.back();
  loop.pads = loop.sequences() > 1 && masks(setup, model);
  MemoryPlay play({.session = setup.session,
                   .device = eager::kernel_device(setup.session.compute_capability),
                   .allocator = training.allocator,
                   .memory = profile.memory});
  try {
    eager::TrainingRun run(play.session(), model, config, setup);
    play.begin();
    // Once more with the longest, when the optimizer has its state.
    const int steps = static_cast<int>(loop.lengths.size()) / loop.micro_batches + 2;
    for (int step = 0; step < steps; ++step)
      run.loop().iteration([&](eager::Moment, int) { play.catch_up(); });
  } catch (const MemoryPlay::OutOfMemoryStop&) {
    memory.fits = false;
  }
  const AllocatorStatistics& held = play.allocator().statistics();
  memory.peak_allocated = {held.allocated_bytes.peak};
  memory.peak_reserved = {held.reserved_bytes.peak};
  return memory;
}

}  // namespace shardscope::planner
