#include "sim/planner/answer/chosen.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

constexpr std::size_t rule_count = static_cast<std::size_t>(Rule::place) + 1;
/// By rule: the least is the best.
using Merits = std::array<std::int64_t, rule_count>;

/// Beyond two usual margins more room is of no more use.
std::int64_t margins_missing(const Summary& summary) {
  constexpr std::int64_t enough = 2;
  const auto left = free_memory(summary);
  if (!left) return 0;
  const Bytes usual = usual_margin(*summary.device_memory);
  return enough - std::clamp<std::int64_t>(left->count / usual.count, 0, enough);
}

std::int64_t counted(std::size_t number) { return static_cast<std::int64_t>(number); }

/// A hybrid that ties has nothing for its second axis.
std::vector<std::string> settings_that_are_not_plain(const Choice& choice) {
  std::vector<std::string> settings = unusual_settings(choice);
  if (is_pipelined(choice)) settings.emplace_back("a pipeline");
  if (choice.tensor > 1) settings.emplace_back("an axis tensor");
  if (choice.mesh.replicate > 1 && choice.mesh.shard > 1)
    settings.push_back(fmt::format("a mesh of {} x {}", choice.mesh.replicate, choice.mesh.shard));
  return settings;
}

Merits merits_of(const Candidate& candidate, std::size_t place, const WrittenFrom& from) {
  const Choice& choice = candidate.choice;
  const std::size_t reduces = choice.reduces_every_micro_batch ? 1 : 0;
  return {margins_missing(candidate.summary),
          memory_beyond_the_file(choice, from).empty() ? 0 : 1,
          choice.runtime == Runtime::fsdp1 ? 1 : 0,
          counted(written(choice, from).losses.size()),
          counted(settings_that_are_not_plain(choice).size() + reduces),
          counted(fragile_features(choice).size()),
          candidate.summary.time.communication.ns,
          counted(place)};
}

std::string listed(const std::vector<std::string>& items) {
  return items.empty() ? std::string("none") : fmt::format("{}", fmt::join(items, ", "));
}

std::vector<std::string> left_to_the_script(const Candidate& candidate, const WrittenFrom& from) {
  std::vector<std::string> keys;
  for (const Loss& loss : written(candidate.choice, from).losses) keys.push_back(loss.key);
  return keys;
}

/// What the one leaves to the script and the other does not.
std::vector<std::string> only_of(const Candidate& one, const Candidate& other,
                                 const WrittenFrom& from) {
  std::vector<std::string> keys = left_to_the_script(one, from);
  const std::vector<std::string> both = left_to_the_script(other, from);
  std::erase_if(keys, [&](const std::string& key) {
    return std::find(both.begin(), both.end(), key) != both.end();
  });
  return keys;
}

std::string free_text(const Candidate& candidate) {
  const auto left = free_memory(candidate.summary);
  return left ? rounded_text(*left) : std::string("memory");
}

/// "leaves 9.2 GiB, place 1 leaves 3.1 GiB".
std::string why_preferred(Rule rule, const Candidate& chosen, const Candidate& other,
                          const WrittenFrom& from) {
  const std::string place = fmt::format("place {}", other.place);
  switch (rule) {
    case Rule::margin:
      return fmt::format("leaves {}, {} leaves {}", free_text(chosen), place, free_text(other));
    case Rule::memory:
      return fmt::format("no file can set \"{}\", and the memory of {} depends on it",
                         memory_beyond_the_file(other.choice, from), place);
    case Rule::current:
      return fmt::format("{} is FSDP1, and PyTorch recommends FSDP2", place);
    case Rule::file:
      return fmt::format("the file of {} cannot set, so that the script must: {}", place,
                         listed(only_of(other, chosen, from)));
    case Rule::plain:
      return fmt::format("{} has more unusual settings: {} (chosen: {})", place,
                         listed(settings_that_are_not_plain(other.choice)),
                         listed(settings_that_are_not_plain(chosen.choice)));
    case Rule::fragile:
      return fmt::format("{} has {}", place, fragile_features(other.choice).front());
    case Rule::network:
      return fmt::format("its collectives take {} a step, those of {} {}",
                         rounded_text(chosen.summary.time.communication), place,
                         rounded_text(other.summary.time.communication));
    case Rule::place:
      break;
  }
  return {};
}

Rule first_difference(const Merits& a, const Merits& b) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first;
  return at == a.end() ? Rule::place : static_cast<Rule>(at - a.begin());
}

std::vector<std::size_t> tied_with_first(std::span<const Candidate> places) {
  std::vector<std::size_t> tied{0};
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i].ties) tied.push_back(i);
  return tied;
}

}  // namespace

std::string_view name_of(Rule rule) {
  constexpr std::array<std::string_view, rule_count> names{"margin", "memory",  "current", "file",
                                                           "plain",  "fragile", "network", "place"};
  return names[static_cast<std::size_t>(rule)];
}

std::vector<std::string_view> fragile_features(const Choice& choice) {
  std::vector<std::string_view> features;
  if (choice.offload != Offload::none)
    features.emplace_back("offload: the host's memory and PCIe decide");
  if (choice.checkpointing.selective)
    features.emplace_back("selective checkpointing: its list of operators is the script's");
  // torch.distributed.fsdp: "should only be used for static-graph models".
  if (choice.runtime == Runtime::fsdp1 && choice.prefetch == Prefetch::both)
    features.emplace_back("forward_prefetch: only for models whose layers always run in one order");
  if (choice.precision == TrainingPrecision::fp16_mixed)
    features.emplace_back("fp16: the loss has to be scaled");
  return features;
}

Chosen chosen_of(std::span<const Candidate> places, const WrittenFrom& from) {
  Chosen chosen{.tied = tied_with_first(places)};
  if (chosen.tied.size() == 1) return chosen;
  std::vector<Merits> merits;
  for (const std::size_t i : chosen.tied) merits.push_back(merits_of(places[i], i, from));
  std::vector<std::size_t> order(merits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return merits[a] < merits[b]; });
  const std::size_t best = order[0];
  chosen.candidate = chosen.tied[best];
  for (std::size_t i = 0; i < merits.size(); ++i) {
    if (i == best) continue;
    const Rule rule = first_difference(merits[best], merits[i]);
    chosen.passed_over.push_back(
        {.candidate = chosen.tied[i],
         .rule = rule,
         .why = why_preferred(rule, places[chosen.candidate], places[chosen.tied[i]], from)});
  }
  const std::size_t beside = best == 0 ? order[1] - 1 : 0;
  chosen.rule = chosen.passed_over[beside].rule;
  chosen.why = chosen.passed_over[beside].why;
  if (best != 0) chosen.why_not_first = chosen.why;
  return chosen;
}

}  // namespace shardscope::planner
