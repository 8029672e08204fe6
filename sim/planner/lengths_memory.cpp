#include "sim/planner/lengths_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "sim/planner/memory_play.h"

namespace shardscope::planner {
namespace {

bool reach_the_model(const eager::TrainingSetup& setup, const Model& model) {
  return !setup.loop.flattens && !setup.model.packed && !model.step &&
         setup.compiled == CompileScope::none;
}

/// As --attention flash does, which stands for attn_implementation: flash_attention_2, too.
bool asks_flash(const eager::AttentionSwitches& kernels) { return kernels.flash && !kernels.cudnn; }

/// Whether a mask that pads reaches the attention. Unsloth and litgpt have none; a kernel of
/// FlashAttention takes the sequences without their padding.
bool masks(const eager::TrainingSetup& setup, const Model& model) {
  using Attention = eager::AttentionImplementation;
  const bool unsloth = setup.fine_tuning && setup.fine_tuning->unsloth;
  if (unsloth || model.family == "litgpt" || setup.model.torchtitan_attention) return false;
  return setup.model.attention == Attention::eager ||
         (setup.model.attention == Attention::sdpa && !asks_flash(setup.session.attention));
}

int micro_batches_of(const eager::TrainingSetup& setup, const SequenceLengths& lengths) {
  constexpr std::int64_t most = 1000;
  const std::int64_t of_all_ranks = setup.loop.batch * std::max(1, setup.world);
  return static_cast<int>(std::clamp<std::int64_t>(
      static_cast<std::int64_t>(lengths.ascending.size()) / of_all_ranks, 1, most));
}

std::vector<std::int64_t> played_lengths(const eager::TrainingSetup& setup,
                                         const SequenceLengths& lengths) {
  return growing_lengths(padded_run(lengths, setup.loop.length, setup.loop.sequences(),
                                    micro_batches_of(setup, lengths)));
}

void check_prompt(std::int64_t prompt, std::int64_t shortest) {
  if (shortest > prompt) return;
  throw Error({.where = "--prompt",
               .what = fmt::format("a prompt of {} tokens does not fit into a micro-batch of "
                                   "--lengths, whose longest sequence has {}",
                                   prompt, shortest),
               .way_out = fmt::format("give 0 to {}, or longer sequences", shortest - 1)});
}

}  // namespace

void check_prompt(const eager::TrainingSetup& setup, const Model& model,
                  const SequenceLengths& lengths) {
  if (reach_the_model(setup, model))
    check_prompt(setup.loop.prompt, played_lengths(setup, lengths).front());
}

std::optional<LengthsMemory> memory_of_lengths(const PytorchTraining& training, const Model& model,
                                               const JsonValue& config, const DeviceRoom& room,
                                               const SequenceLengths& lengths) {
  if (!reach_the_model(training.setup, model)) return std::nullopt;
  eager::TrainingSetup setup = training.setup;
  eager::TrainingSettings& loop = setup.loop;
  LengthsMemory memory{.micro_batches = micro_batches_of(setup, lengths)};
  loop.lengths = played_lengths(setup, lengths);
  check_prompt(loop.prompt, loop.lengths.front());
  loop.length = memory.longest = loop.lengths.back();
  loop.pads = loop.sequences() > 1 && masks(setup, model);
  MemoryPlay play({.session = setup.session,
                   .device = eager::kernel_device(setup.session.compute_capability),
                   .allocator = training.allocator,
                   .memory = room.memory,
                   .outside = room.outside});
  try {
    eager::TrainingRun run(play.session(), model, config, setup);
    play.begin();
    // Once more with the longest, when the optimizer has its state.
    const int steps = static_cast<int>(loop.lengths.size()) / loop.micro_batches + 2;
    for (int step = 0; step < steps; ++step)
      run.loop().iteration([&](eager::Moment, int) { play.catch_up(); });
  } catch (const MemoryPlay::OutOfMemoryStop&) {
    memory.out_of_memory = true;
  }
  const AllocatorStatistics& held = play.allocator().statistics();
  memory.peak_allocated = {held.allocated_bytes.peak};
  memory.peak_reserved = {held.reserved_bytes.peak};
  const Bytes needed = memory.peak_reserved + room.outside + room.margin;
  memory.fits = !memory.out_of_memory && (room.memory == Bytes{} || needed <= room.memory);
  return memory;
}

}  // namespace shardscope::planner
