// What a search found, in words.
#include <fmt/format.h>

#include <algorithm>

#include "sim/planner/search.h"

namespace shardscope::planner {

std::string_view name_of(Objective objective) {
  constexpr std::string_view names[] = {"time", "memory", "cost"};
  return names[static_cast<std::size_t>(objective)];
}

std::string_view name_of(Reason reason) {
  constexpr std::string_view names[] = {"slower",  "too_slow",      "bounded",
                                        "larger",  "out_of_memory", "out_of_host_memory",
                                        "refused", "not_reached"};
  return names[static_cast<std::size_t>(reason)];
}

namespace {

/// Of a step of that time. Both times may round to the same, so the difference is said, too.
std::string against(const PlaceToBeat& place, Duration time) {
  if (time <= place.time || place.time <= Duration{})
    return fmt::format("; {} takes {}", place.name, rounded_text(place.time));
  const double more = (time.seconds() / place.time.seconds() - 1) * 100;
  constexpr double least = 0.1;
  return fmt::format(", {} more than {} ({})",
                     more < least ? "less than 0.1%" : fmt::format("{:.1f}%", more), place.name,
                     rounded_text(place.time));
}

}  // namespace

std::string why(const Outcome& outcome, const TrialInputs& inputs,
                const std::optional<PlaceToBeat>& place, std::string_view slowest) {
  const std::string about = outcome.is_estimate ? "about " : "";
  const std::string time = about + rounded_text(outcome.time);
  const std::string beside = place ? against(*place, outcome.time) : "";
  switch (outcome.reason) {
    case Reason::slower:
      // What has not come to a place was tried out without the allocator, whose retries take time.
      return fmt::format(
          "takes {}{} a step{}",
          place && outcome.time <= place->time && !outcome.is_estimate ? "at least " : "", time,
          beside);
    case Reason::too_slow:
      return fmt::format("too slow: takes {} or more a step of the {} allowed", time, slowest);
    case Reason::bounded:
      return fmt::format("takes at least {} a step{}", time, beside);
    case Reason::larger:
      return fmt::format("needs {}{}", about, rounded_text(outcome.memory));
    case Reason::out_of_memory:
      if (outcome.memory <= inputs.profile.memory)
        return fmt::format("tight: needs {}{} of {}, and {} should stay free (--margin)",
                           outcome.is_least ? "at least " : about, rounded_text(outcome.memory),
                           rounded_text(inputs.profile.memory),
                           rounded_text(std::max(inputs.margin, outcome.margin)));
      // What a run holds when it fails says little of what it needs.
      if (outcome.memory.count / 50 < (outcome.memory - inputs.profile.memory).count)
        return fmt::format("out of memory: needs {} {} of the {} there are",
                           outcome.is_estimate ? "about" : "at least", rounded_text(outcome.memory),
                           rounded_text(inputs.profile.memory));
      return fmt::format("out of memory: the {} there are do not suffice",
                         rounded_text(inputs.profile.memory));
    case Reason::out_of_host_memory:
      return fmt::format("out of the host's memory: a node keeps at least {} there and has {}",
                         rounded_text(outcome.memory),
                         rounded_text(inputs.host_memory.value_or(Bytes{})));
    case Reason::refused:
      return outcome.text;
    case Reason::not_reached:
      break;
  }
  return "not reached before the search was stopped";
}

}  // namespace shardscope::planner
