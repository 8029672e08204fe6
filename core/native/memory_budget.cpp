#include "core/native/memory_budget.h"

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/native/native_schedule.h"

namespace shardscope {
namespace {

constexpr std::string_view option = "--memory-budget";

std::vector<Schedule> schedules_with(const Checkpointing& checkpointing, NativeTraining training,
                                     const Target& target) {
  training.memory_budget = {};
  training.strategy.checkpointing = checkpointing;
  return native_schedules_of_stages(training, 0, target);
}

}  // namespace

Checkpointing checkpointing_within_budget(const NativeTraining& training, const Target& target) {
  const Bytes budget = training.memory_budget;
  if (training.strategy.checkpointing.any()) {
    throw Error({.where = std::string(option),
                 .what = "the budget chooses the checkpointing, but " +
                         text_of(training.strategy.checkpointing) + " was asked for",
                 .way_out = "give one of --memory-budget and --checkpointing"});
  }
  const auto fits = [&](const Checkpointing& one) {
    return arenas_fit(schedules_with(one, training, target), budget);
  };
  constexpr Checkpointing selective{.selective = true};
  for (const Checkpointing& one : {Checkpointing{}, selective})
    if (fits(one)) return one;
  if (!fits(full_checkpointing)) {
    const Bytes least = largest_arena(schedules_with(full_checkpointing, training, target));
    throw Error({.where = std::string(option),
                 .what = "with every block run again the step needs " + rounded_text(least) +
                         ", the budget is " + exact_text(budget),
                 .way_out = "give more, a smaller --batch, or a --strategy that shards more"});
  }
  // The more blocks, the less memory: the least number that fits, by halving.
  const auto first = [](int blocks) { return Checkpointing{.first = blocks, .selective = true}; };
  int too_few = 0;
  auto enough = static_cast<int>(training.model.decoder->blocks.size());
  while (enough - too_few > 1) {
    const int middle = too_few + (enough - too_few) / 2;
    (fits(first(middle)) ? enough : too_few) = middle;
  }
  const bool all = enough == static_cast<int>(training.model.decoder->blocks.size());
  return all ? full_checkpointing : first(enough);
}

}  // namespace shardscope
