#include "gui/diagnostics/identities.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "core/base/grouped.h"
#include "gui/data/memory_bands.h"

namespace shardscope::gui {
namespace {

std::string bytes_text(Bytes bytes) { return grouped(bytes.count) + " B"; }
std::string time_text(Duration time) { return grouped(time.ns) + " ns"; }

Finding finding(bool holds, const std::string& where, std::string what) {
  return {holds ? Severity::holds : Severity::broken, where, std::move(what)};
}

std::string side_text(const Side& side, std::size_t rank) {
  if (side.kind == SideKind::predicted) return "predicted";
  return fmt::format("profiled, rank {}", side.ranks[rank]->rank);
}

/// Classes of what runs at an instant, by sweeping over the begins and ends of all spans: another
/// way than account() goes.
Accounting swept(const Trace& trace, TimeWindow window) {
  std::map<Duration, std::array<int, 3>> changes;
  for (const Span& span : trace.spans) {
    if (!is_on_device(trace, span)) continue;
    const TimeWindow inside = clipped({.begin = span.start, .end = span.end()}, window);
    if (inside.length().ns == 0) continue;
    const auto kind = static_cast<std::size_t>(span.span_class);
    ++changes[inside.begin][kind];
    --changes[inside.end][kind];
  }
  changes[window.begin];
  changes[window.end];
  Accounting sum;
  std::array<int, 3> running{};
  Duration last = window.begin;
  const auto is_running = [&](SpanClass kind) {
    return running[static_cast<std::size_t>(kind)] > 0;
  };
  for (const auto& [time, change] : changes) {
    const Duration stretch = time - last;
    const bool computes = is_running(SpanClass::compute);
    const bool communicates = is_running(SpanClass::communication);
    sum.span += stretch;
    if (computes)
      sum.compute += stretch;
    else if (communicates)
      sum.exposed_communication += stretch;
    else if (is_running(SpanClass::copy))
      sum.exposed_copy += stretch;
    else
      sum.idle += stretch;
    if (communicates) sum.communication += stretch;
    if (communicates && computes) sum.overlap += stretch;
    for (std::size_t i = 0; i < running.size(); ++i) running[i] += change[i];
    last = time;
  }
  return sum;
}

/// What changes at each operation, and what is alive before the first.
struct LiveChanges {
  CategoryBytes resting;
  std::map<std::uint32_t, CategoryBytes> by_operation;
};

LiveChanges changes_of(const std::vector<PredictedBuffer>& buffers) {
  LiveChanges changes;
  for (const PredictedBuffer& buffer : buffers) {
    if (buffer.allocated_by)
      changes.by_operation[buffer.allocated_by.value][buffer.category] += buffer.bytes;
    else
      changes.resting[buffer.category] += buffer.bytes;
    if (buffer.freed_by)
      changes.by_operation[buffer.freed_by.value + 1][buffer.category] -= buffer.bytes;
  }
  return changes;
}

/// What is alive while each operation runs that something changes at.
std::map<std::uint32_t, CategoryBytes> live_by_operation(const LiveChanges& changes) {
  std::map<std::uint32_t, CategoryBytes> live;
  CategoryBytes now = changes.resting;
  for (const auto& [operation, change] : changes.by_operation) {
    for (const MemoryCategory category : memory_categories) now[category] += change[category];
    live[operation] = now;
  }
  return live;
}

struct WorstDifference {
  Bytes bytes;
  OperationId operation;
  MemoryCategory category{};
  void take(Bytes difference, OperationId at, MemoryCategory of = {}) {
    const Bytes size{std::abs(difference.count)};
    if (size > bytes) *this = {size, at, of};
  }
};

std::string name_at(const Trace& trace, OperationId operation) {
  if (!operation) return "rest";
  const OperationFacts* facts = FactsTable(trace).find(operation);
  return facts == nullptr ? fmt::format("operation {}", operation.value) : facts->name;
}

std::map<std::uint32_t, Bytes> live_of_step(const Trace& trace, TimeWindow step) {
  std::map<std::uint32_t, Bytes> live;
  for (const MemorySample& sample : trace.memory)
    if (sample.operation && sample.time >= step.begin && sample.time < step.end)
      live[sample.operation.value] = sample.live.total();
  return live;
}

std::int64_t gathers_of(const Trace& trace) {
  return std::count_if(trace.facts.begin(), trace.facts.end(), [](const OperationFacts& facts) {
    return facts.kind == OperationKind::all_gather;
  });
}

bool is_native(const Scenario& scenario) {
  const Summary* summary = scenario.summary();
  return summary != nullptr && summary->runtime == "native";
}

void check_times(const Side& side, std::vector<Finding>& findings) {
  if (side.summary && side.summary->time.span.ns > 0) {
    const std::string where = fmt::format("{}, summary", name_of(side.kind));
    findings.push_back(times_sum(side.summary->time, where));
  }
  for (std::size_t rank = 0; rank < side.ranks.size(); ++rank) {
    const Trace& trace = *side.ranks[rank];
    const TimeWindow step = shown_step(trace);
    findings.push_back(
        times_are_those_of(trace, step, account(trace, step), side_text(side, rank)));
  }
}

void check_prediction(const Scenario& scenario, std::vector<Finding>& findings) {
  const Side& side = *scenario.predicted;
  if (side.ranks.empty()) return;
  const Trace& trace = *side.ranks.front();
  if (gathers_of(trace) > 0) findings.push_back(gathers_are_whole(trace, "predicted"));
  if (side.buffers.empty() || !is_native(scenario)) return;
  findings.push_back(live_bytes_are_buffers(trace, side.buffers, "predicted"));
  findings.push_back(parameters_are_shards(resting_parameters(trace, shown_step(trace)),
                                           side.buffers, trace.world, "predicted"));
}

/// Of the rank that was predicted.
void check_own_memory(const Side& predicted, const Trace& trace, const std::string& where,
                      std::vector<Finding>& findings) {
  if (const auto equal = live_bytes_are_equal(*predicted.ranks.front(), trace, where))
    findings.push_back(*equal);
  if (!predicted.buffers.empty())
    findings.push_back(live_bytes_are_buffers(trace, predicted.buffers, where));
}

/// Our own run beside its prediction: the same schedule.
void check_own_run(const Scenario& scenario, std::vector<Finding>& findings) {
  const Side& predicted = *scenario.predicted;
  const Side& profiled = *scenario.profiled;
  const Trace& plan = *predicted.ranks.front();
  for (std::size_t rank = 0; rank < profiled.ranks.size(); ++rank) {
    const Trace& trace = *profiled.ranks[rank];
    const std::string where = side_text(profiled, rank);
    if (trace.facts.empty()) continue;
    findings.push_back(collectives_are_equal(collective_bytes(plan, shown_step(plan)),
                                             collective_bytes(trace, shown_step(trace)), where));
    if (!is_native(scenario) || trace.memory.empty()) continue;
    if (trace.rank == plan.rank) check_own_memory(predicted, trace, where, findings);
    if (!predicted.buffers.empty())
      findings.push_back(parameters_are_shards(resting_parameters(trace, shown_step(trace)),
                                               predicted.buffers, trace.world, where));
  }
}

/// Pairs of which all that the trace says of elements, type and group is equal.
void check_matches(const SideMatch& match, std::vector<Finding>& findings) {
  for (const RankMatch& rank : match.ranks) {
    const PairCounts counts = rank.all_collectives();
    if (counts.matched() == 0) continue;
    const std::int64_t equal = counts.matched() - counts.order_and_kind;
    findings.push_back(
        finding(counts.order_and_kind == 0, fmt::format("profiled, {}", rank.file),
                fmt::format("elements of {} of {} collectives are those that were predicted",
                            grouped(equal), grouped(counts.matched()))));
  }
}

}  // namespace

Finding times_sum(const Accounting& time, const std::string& where) {
  const Duration parts = time.compute + time.exposed_communication + time.exposed_copy + time.idle;
  const std::string sum =
      fmt::format("{} compute + {} exposed communication + {} exposed copies + {} idle",
                  time_text(time.compute), time_text(time.exposed_communication),
                  time_text(time.exposed_copy), time_text(time.idle));
  if (parts == time.span)
    return finding(true, where, fmt::format("span {} = {}", time_text(time.span), sum));
  return finding(false, where,
                 fmt::format("span {} and {} differ by {}", time_text(time.span), sum,
                             time_text(time.span - parts)));
}

Finding times_are_those_of(const Trace& trace, TimeWindow window, const Accounting& time,
                           const std::string& where) {
  const Accounting again = swept(trace, window);
  if (again == time) return times_sum(time, where);
  return finding(false, where,
                 fmt::format("its spans come to {} compute, {} exposed communication and {} idle, "
                             "its accounting says {}, {} and {}",
                             time_text(again.compute), time_text(again.exposed_communication),
                             time_text(again.idle), time_text(time.compute),
                             time_text(time.exposed_communication), time_text(time.idle)));
}

Finding live_bytes_are_buffers(const Trace& trace, const std::vector<PredictedBuffer>& buffers,
                               const std::string& where) {
  const LiveChanges changes = changes_of(buffers);
  const auto live = live_by_operation(changes);
  WorstDifference worst;
  for (const MemorySample& sample : trace.memory) {
    auto after = live.end();
    if (sample.operation) after = live.upper_bound(sample.operation.value);
    const CategoryBytes& expected =
        !sample.operation || after == live.begin() ? changes.resting : std::prev(after)->second;
    for (const MemoryCategory category : memory_categories)
      worst.take(sample.live[category] - expected[category], sample.operation, category);
  }
  const std::string what =
      fmt::format("live bytes = sum of the {} buffers that are alive, at {} moments",
                  grouped(static_cast<std::int64_t>(buffers.size())),
                  grouped(static_cast<std::int64_t>(trace.memory.size())));
  if (worst.bytes.count == 0) return finding(true, where, what);
  return finding(false, where,
                 fmt::format("{}: off by {} ({} at {})", what, bytes_text(worst.bytes),
                             band_name(worst.category), name_at(trace, worst.operation)));
}

CollectiveBytes collective_bytes(const Trace& trace, TimeWindow window) {
  const FactsTable facts(trace);
  CollectiveBytes sum;
  for (const Span& span : trace.spans) {
    if (span.span_class != SpanClass::communication) continue;
    if (span.start < window.begin || span.start >= window.end) continue;
    const OperationFacts* of = facts.find(span.operation);
    if (of == nullptr) continue;
    ++sum.times;
    sum.bytes += of->bytes;
  }
  return sum;
}

Finding collectives_are_equal(const CollectiveBytes& predicted, const CollectiveBytes& profiled,
                              const std::string& where) {
  const auto text = [](const CollectiveBytes& sum) {
    return fmt::format("{} collectives of {}", grouped(sum.times), bytes_text(sum.bytes));
  };
  if (predicted == profiled)
    return finding(true, where,
                   fmt::format("{} in a step, predicted and profiled", text(profiled)));
  return finding(
      false, where,
      fmt::format("{} in a step were predicted, and {} profiled: off by {}", text(predicted),
                  text(profiled), bytes_text(predicted.bytes - profiled.bytes)));
}

Finding gathers_are_whole(const Trace& trace, const std::string& where) {
  std::int64_t gathers = 0, wrong = 0;
  std::string first;
  for (const OperationFacts& facts : trace.facts) {
    if (facts.kind != OperationKind::all_gather) continue;
    ++gathers;
    const auto ranks = static_cast<std::int64_t>(facts.ranks.size());
    if (facts.elements_out == facts.elements_in * ranks) continue;
    if (wrong++ == 0)
      first = fmt::format("{}: {} ranks of {} elements give {}", facts.name, ranks,
                          grouped(facts.elements_in), grouped(facts.elements_out));
  }
  if (wrong == 0)
    return finding(
        true, where,
        fmt::format("elements out of {} gathers = ranks x elements in", grouped(gathers)));
  return finding(false, where,
                 fmt::format("{} of {} gathers give other than ranks x elements in ({})",
                             grouped(wrong), grouped(gathers), first));
}

std::optional<Finding> live_bytes_are_equal(const Trace& predicted, const Trace& profiled,
                                            const std::string& where) {
  const auto plan = live_of_step(predicted, shown_step(predicted));
  const auto run = live_of_step(profiled, shown_step(profiled));
  WorstDifference worst;
  std::int64_t both = 0;
  for (const auto& [operation, bytes] : run) {
    const auto same = plan.find(operation);
    if (same == plan.end()) continue;
    ++both;
    worst.take(same->second - bytes, OperationId{operation});
  }
  if (both == 0) return std::nullopt;
  const std::string what = fmt::format(
      "live bytes while {} operations run are those that were "
      "predicted",
      grouped(both));
  if (worst.bytes.count == 0) return finding(true, where, what);
  return finding(false, where,
                 fmt::format("{}: off by {} at {}", what, bytes_text(worst.bytes),
                             name_at(profiled, worst.operation)));
}

Bytes resting_parameters(const Trace& trace, TimeWindow step) {
  std::optional<Bytes> least;
  for (const MemorySample& sample : trace.memory) {
    if (sample.time < step.begin || sample.time > step.end) continue;
    const Bytes held = sample.live[MemoryCategory::parameters];
    least = least ? std::min(*least, held) : held;
  }
  return least.value_or(Bytes{});
}

Finding parameters_are_shards(Bytes held, const std::vector<PredictedBuffer>& buffers, int world,
                              const std::string& where) {
  Bytes sum;
  std::int64_t shards = 0;
  for (const PredictedBuffer& buffer : buffers) {
    if (buffer.category != MemoryCategory::parameters || buffer.allocated_by) continue;
    sum += buffer.bytes;
    ++shards;
  }
  if (held == sum)
    return finding(true, where,
                   fmt::format("parameters between steps, {} = {} shards of {} ranks",
                               bytes_text(held), grouped(shards), world));
  return finding(
      false, where,
      fmt::format("parameters between steps, {}, and {} shards, {}, differ by {}", bytes_text(held),
                  grouped(shards), bytes_text(sum), bytes_text(held - sum)));
}

std::vector<Finding> identities_of(const Scenario& scenario) {
  std::vector<Finding> findings;
  for (const SideKind kind : {SideKind::predicted, SideKind::profiled})
    if (const Side* side = scenario.side(kind)) check_times(*side, findings);
  if (scenario.predicted) check_prediction(scenario, findings);
  if (scenario.match) {
    check_matches(*scenario.match, findings);
  } else if (scenario.predicted && scenario.profiled && !scenario.predicted->ranks.empty()) {
    check_own_run(scenario, findings);
  }
  return findings;
}

}  // namespace shardscope::gui
