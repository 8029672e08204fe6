#include "sim/planner/answer/rejected.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

#include "traces/memory_fit.h"

namespace shardscope::planner {
namespace {

/// The outcome that says most of a strategy: the fastest one simulated, else the lowest bound,
/// else what needs least memory.
bool says_more(const Outcome& a, const Outcome& b) {
  if (a.reason != b.reason) return a.reason < b.reason;
  if (a.reason == Reason::out_of_memory || a.reason == Reason::out_of_host_memory ||
      a.reason == Reason::larger)
    return a.memory < b.memory;
  return a.time < b.time;
}

Rejected beyond_the_allocator(const Candidate& candidate) {
  return {strategy_text(candidate.choice),
          fmt::format("{}: the tensors fit, but the caching allocator would {}",
                      settings_text(candidate.choice),
                      candidate.summary.fits ? "leave less than the margin"
                                             : "reserve more than the device has")};
}

}  // namespace

bool note_unfit(const std::vector<Candidate>& candidates, Findings& findings) {
  bool any = false;
  for (const Candidate& candidate : candidates) {
    const Summary& summary = candidate.summary;
    if (leaves_margin(summary)) continue;
    any = true;
    const Bytes outside = summary.memory.outside;
    findings.keep_unfit(candidate.choice, {.reserved = needed_memory(summary) - outside,
                                           .outside = outside,
                                           .fits = false,
                                           .margin = margin_wanted(summary)});
  }
  return any;
}

std::vector<Rejected> take_out_unfit(std::vector<Candidate>& candidates) {
  std::vector<Rejected> rejected;
  for (const Candidate& candidate : candidates)
    if (!leaves_margin(candidate.summary)) rejected.push_back(beyond_the_allocator(candidate));
  std::erase_if(candidates, [](const Candidate& c) { return !leaves_margin(c.summary); });
  return rejected;
}

std::vector<Rejected> rejected_of(const Weighed& weighed, std::span<const Candidate> places,
                                  const Basis& basis) {
  std::set<std::string> shown;
  for (const Candidate& candidate : places) shown.insert(kind_of(candidate.choice));
  std::vector<std::string> order;
  std::map<std::string, const Outcome*> best;
  for (const Outcome& outcome : weighed.others) {
    const std::string kind = kind_of(weighed.choices[outcome.choice]);
    if (shown.contains(kind)) continue;
    const auto [entry, is_new] = best.try_emplace(kind, &outcome);
    if (is_new) order.push_back(kind);
    if (says_more(outcome, *entry->second)) entry->second = &outcome;
  }
  std::optional<PlaceToBeat> last;
  if (!places.empty()) last = {"the last place", places.back().summary.step_time};
  std::vector<Rejected> rejected;
  for (const std::string& kind : order) {
    const Outcome& outcome = *best[kind];
    const int world = world_of(weighed.choices[outcome.choice]);
    rejected.push_back(
        {kind, why(outcome, basis.trials, last, allowed_step_text(basis.inputs, world))});
  }
  return rejected;
}

}  // namespace shardscope::planner
