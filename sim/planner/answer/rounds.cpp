#include "sim/planner/answer/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "sim/cost/cost_model.h"
#include "sim/planner/choice_prediction.h"
#include "sim/planner/pipeline_layers.h"

namespace shardscope::planner {
namespace {

/// Whether the host's memory holds a part of it.
enum class Memory : std::uint8_t { device, host };

/// Why what offloads is put off.
std::string why_put_off(const HardwareProfile& profile) {
  const std::string_view why = CostModel(profile).knows_host_time()
                                   ? "updating on the host takes longer"
                                   : "the host's update is not timed, as the profile "
                                     "has no host_memory_bandwidth";
  return fmt::format("{}: weighed only where nothing fits without it", why);
}

/// What is weighed in one round; what is put off to a later one is said.
Enumeration choices_in(Memory memory, const Inputs& inputs, int world) {
  Enumeration all = choices_of(inputs, world);
  const bool offloads = memory == Memory::host;
  const std::size_t put_off = std::erase_if(all.choices, [&](const Choice& choice) {
    return (choice.offload != Offload::none) != offloads;
  });
  if (offloads) all.groups.clear();
  if (!offloads && put_off > 0) all.dropped.push_back({"offload", why_put_off(inputs.profile)});
  return all;
}

/// Adds a search's findings to those before it.
void add(Enumeration all, const SearchResult& found, Weighed& weighed) {
  const std::size_t first = weighed.choices.size();
  for (Outcome outcome : found.others) {
    outcome.choice += first;
    weighed.others.push_back(std::move(outcome));
  }
  for (const Ranked& ranked : found.ranked) {
    weighed.ranked.push_back(first + ranked.choice);
    weighed.tried.push_back({.choice = first + ranked.choice,
                             .reason = Reason::slower,
                             .time = ranked.trial.time.span,
                             .memory = ranked.full.reserved + ranked.full.outside});
  }
  if (first == 0) std::ranges::move(all.dropped, std::back_inserter(weighed.dropped));
  weighed.choices.insert(weighed.choices.end(), all.choices.begin(), all.choices.end());
  weighed.choices.insert(weighed.choices.end(), found.opened.begin(), found.opened.end());
  weighed.in_groups += found.in_groups;
  weighed.simulated += found.simulated;
  weighed.interrupted = weighed.interrupted || found.interrupted;
}

/// None where a number of ranks has no way: why is said.
std::optional<Enumeration> choices_of_one(int world, Memory memory, const Inputs& inputs,
                                          Weighed& weighed, std::optional<Error>& first_error) {
  try {
    return choices_in(memory, inputs, world);
  } catch (const Error& error) {
    if (error.code() == ExitCode::interrupted) throw;
    if (!first_error) first_error = error;
    Dropped dropped{fmt::format("--world {}", world), error.parts().what};
    if (std::ranges::find(weighed.dropped, dropped) == weighed.dropped.end())
      weighed.dropped.push_back(std::move(dropped));
    return std::nullopt;
  }
}

/// What is said of a place later is known then.
void predict_ahead(const Choice& choice, const Basis& basis, const Watcher& watcher) {
  try {
    figures_of(choice, basis.trials, watcher.stop);
  } catch (const Error&) {
    return;  // whoever asks for it is told
  }
}

/// Throws the first number's Error where none of them has a way.
void weigh(Memory memory, const Basis& basis, const Watcher& watcher, Weighed& weighed) {
  std::optional<Error> first_error;
  for (const int world : worlds_of(basis.inputs)) {
    std::optional<Enumeration> found =
        choices_of_one(world, memory, basis.inputs, weighed, first_error);
    if (!found) continue;
    Enumeration& all = *found;
    add_layers_by_time(all.choices, basis.trials, 0, watcher.stop);
    const auto slowest = slowest_step(basis.inputs, world);
    const SearchResult ranked =
        search(all.choices, basis.trials,
               {.objective = basis.inputs.objective,
                .groups = all.groups,
                .places = ranked_places(basis.inputs),
                .kind = kind_of,
                .slowest = slowest ? std::optional(slowest->time) : std::nullopt,
                .on_progress = watcher.on_progress,
                .look_ahead = [&](const Choice& choice) { predict_ahead(choice, basis, watcher); },
                .stop = watcher.stop});
    add(std::move(all), ranked, weighed);
  }
  if (weighed.choices.empty() && first_error) throw *first_error;
}

/// The axes that it has: which of them pay is the question.
std::string kind_of_torchtitan(const Choice& choice) {
  const std::pair<std::string_view, int> axes[] = {
      {"pipeline", choice.mesh.pipeline},    {"replicate", choice.mesh.replicate},
      {"shard", choice.mesh.shard},          {"context", choice.torchtitan->context},
      {"tensor", choice.torchtitan->tensor}, {"expert", choice.torchtitan->experts}};
  std::string text = "torchtitan";
  std::string_view between = " ";
  for (const auto& [name, size] : axes)
    if (size > 1) text += fmt::format("{}{}", std::exchange(between, " x "), name);
  return text;
}

}  // namespace

std::vector<int> worlds_of(const Inputs& inputs) {
  if (!inputs.worlds.empty()) return inputs.worlds;
  std::vector<int> result{inputs.question.world};
  while (inputs.objective == Objective::cost && result.back() % 2 == 0)
    result.push_back(result.back() / 2);
  return result;
}

Weighed weigh(const Basis& basis, const Watcher& watcher) {
  Weighed weighed;
  weigh(Memory::device, basis, watcher, weighed);
  if (!weighed.ranked.empty() || watcher.stop.stop_requested()) return weighed;
  weigh(Memory::host, basis, watcher, weighed);
  weighed.offloads = true;
  return weighed;
}

std::string kind_of(const Choice& choice) {
  if (choice.torchtitan) return kind_of_torchtitan(choice);
  if (is_pipelined(choice))
    return fmt::format("{} {} pipeline", name_of(choice.runtime),
                       name_of(choice.pipeline.schedule));
  return fmt::format("{} {}{}", name_of(choice.runtime),
                     choice.tensor > 1 ? fmt::format("tensor {}, ", choice.tensor) : std::string(),
                     name_of(choice.sharding));
}

}  // namespace shardscope::planner
