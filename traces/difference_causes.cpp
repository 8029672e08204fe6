#include "traces/difference_causes.h"
#include "core/base/median.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

namespace shardscope {
namespace {

/// Shorter operations are mostly what it takes to begin and end one.
constexpr Duration too_short = {2'000};
/// Of compute: flops per byte above which arithmetic and not memory is what it takes.
constexpr std::int64_t arithmetic_intensity = 16;

struct Case {
  const OperationDifference& difference;
  const OperationRun& plan;
  const OperationRun& real;
  const DifferenceEvidence& evidence;

  Duration extra_duration() const { return real.duration - plan.duration; }
  Duration extra_gap() const { return real.gap - plan.gap; }
  bool is_slower() const { return difference.difference() < Duration{}; }
  /// It began late more than it took long.
  bool began_late() const { return is_slower() && extra_gap() > extra_duration(); }
  bool took_long() const { return is_slower() && !began_late(); }
  std::string name_at(std::uint32_t span) const {
    return std::string(evidence.real().name(evidence.real().spans[span]));
  }
};

using Found = std::optional<Cause>;

Found other_size(const Case& c) {
  const auto& [plan, real] = c.difference.bytes;
  if (plan.value == real.value) return std::nullopt;
  return Cause{.kind = DifferenceCause::size,
               .rank = {},
               .reason = fmt::format("reads and writes {}, and {} were predicted",
                                     rounded_text(real.value), rounded_text(plan.value))};
}

/// A collective of this rank took at least half of the time by which it began late.
Found waited_for_collective(const Case& c) {
  if (!c.began_late()) return std::nullopt;
  const auto beside = longest_beside(c.evidence.real(), SpanClass::communication,
                                     c.real.gap_window(), c.real.operation);
  if (!beside || beside->time * 2 < c.extra_gap()) return std::nullopt;
  const auto late = c.evidence.late_peer(beside->span);
  const std::string waited =
      fmt::format("waited {} for {}", rounded_text(beside->time), c.name_at(beside->span));
  if (late && late->by * 2 >= beside->time) {
    return Cause{.kind = DifferenceCause::late_peer,
                 .rank = late->rank,
                 .reason = fmt::format("{}, to which rank {} came {} late", waited, late->rank,
                                       rounded_text(late->by))};
  }
  return Cause{.kind = DifferenceCause::queued, .rank = {}, .reason = waited};
}

Found issued_late(const Case& c) {
  if (!c.began_late()) return std::nullopt;
  return Cause{.kind = DifferenceCause::host,
               .rank = {},
               .reason = fmt::format("its stream had nothing to do for {} before it, and {} were "
                                     "predicted: the host issued it late",
                                     rounded_text(c.real.gap), rounded_text(c.plan.gap))};
}

Found peer_came_late(const Case& c) {
  if (!c.took_long() || !is_collective(c.difference.kind)) return std::nullopt;
  const auto late = c.evidence.late_peer(c.real.span);
  if (!late || late->by * 2 < c.extra_duration()) return std::nullopt;
  return Cause{
      .kind = DifferenceCause::late_peer,
      .rank = late->rank,
      .reason = fmt::format("rank {} came {} after this one", late->rank, rounded_text(late->by))};
}

/// On a processor, or at the usual clock, for less than so much of the time.
constexpr double low_share = 0.8;

Found not_on_processor(const Case& c) {
  if (!c.took_long() || is_collective(c.difference.kind)) return std::nullopt;
  const Trace& trace = c.evidence.real();
  const auto time = static_cast<double>(c.real.duration.ns);
  const auto busy = measure_of(trace, c.real.span, "processor_ns");
  if (busy && static_cast<double>(*busy) < low_share * time) {
    return Cause{
        .kind = DifferenceCause::processor,
        .rank = {},
        .reason = fmt::format("was on a processor for {} of its {}: others had it",
                              rounded_text(Duration{*busy}), rounded_text(c.real.duration))};
  }
  const auto cycles = measure_of(trace, c.real.span, "cycles");
  const double clock = cycles ? static_cast<double>(*cycles) / time : 0;
  if (!cycles || clock >= low_share * c.evidence.usual_clock()) return std::nullopt;
  return Cause{.kind = DifferenceCause::processor,
               .rank = {},
               .reason = fmt::format("had {:.2f} cycles a nanosecond where the window's median is "
                                     "{:.2f}: a lower clock, or others had the processor",
                                     clock, c.evidence.usual_clock())};
}

/// So many times the cycles for instructions that are this much alike.
constexpr double more_cycles = 1.25;
constexpr double alike_share = 0.02;

/// The same instructions took more cycles than in another step of the window.
Found same_instructions_took_longer(const Case& c) {
  if (!c.took_long() || is_collective(c.difference.kind)) return std::nullopt;
  const Trace& trace = c.evidence.real();
  const auto cycles = measure_of(trace, c.real.span, "cycles");
  const auto instructions = measure_of(trace, c.real.span, "instructions");
  if (!cycles || !instructions) return std::nullopt;
  std::int64_t fewest = *cycles;
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    if (trace.spans[i].operation != c.real.operation) continue;
    const auto others = measure_of(trace, i, "instructions");
    const auto of_others = measure_of(trace, i, "cycles");
    if (!others || !of_others) continue;
    const auto apart = static_cast<double>(std::abs(*others - *instructions));
    if (apart <= alike_share * static_cast<double>(*instructions))
      fewest = std::min(fewest, *of_others);
  }
  if (static_cast<double>(*cycles) < more_cycles * static_cast<double>(fewest)) return std::nullopt;
  return Cause{
      .kind = DifferenceCause::processor,
      .rank = {},
      .reason = fmt::format("the same instructions took {:.2f} times the cycles of another "
                            "step: caches or memory were busy",
                            static_cast<double>(*cycles) / static_cast<double>(fewest))};
}

/// More of it than predicted, by a quarter at least, ran beside something else.
Found shared_the_device(const Case& c) {
  if (!c.took_long()) return std::nullopt;
  const bool is_compute =
      c.difference.kind == OperationKind::compute || c.difference.kind == OperationKind::optimizer;
  const SpanClass other = is_compute ? SpanClass::communication : SpanClass::compute;
  const auto real = longest_beside(c.evidence.real(), other, c.real.window, c.real.operation);
  const auto plan = longest_beside(c.evidence.plan(), other, c.plan.window, c.plan.operation);
  const Duration predicted = plan ? plan->time : Duration{};
  const auto share = [](Duration part, Duration whole) {
    return whole.ns == 0 ? 0.0 : static_cast<double>(part.ns) / static_cast<double>(whole.ns);
  };
  if (!real || share(real->time, c.real.duration) < share(predicted, c.plan.duration) + 0.25)
    return std::nullopt;
  return Cause{.kind = DifferenceCause::contention,
               .rank = {},
               .reason = fmt::format("ran beside {} for {} of its {}, and {} were predicted",
                                     c.name_at(real->span), rounded_text(real->time),
                                     rounded_text(c.real.duration), rounded_text(predicted))};
}

/// The same work at another rate, in either direction.
Found other_rate(const Case& c) {
  if (std::min(c.plan.duration, c.real.duration) < too_short) return std::nullopt;
  const bool is_later = std::abs(c.extra_gap().ns) > std::abs(c.extra_duration().ns);
  const OperationFacts* facts = c.evidence.facts(c.real.operation);
  if (is_later || facts == nullptr || facts->bytes == Bytes{}) return std::nullopt;
  const double plan_s = c.plan.duration.seconds(), real_s = c.real.duration.seconds();
  if (facts->flops.count > arithmetic_intensity * facts->bytes.count) {
    const auto flops = static_cast<double>(facts->flops.count);
    return Cause{
        .kind = DifferenceCause::arithmetic,
        .rank = {},
        .reason = fmt::format("{}, and {} were predicted", rounded_text(FlopRate{flops / real_s}),
                              rounded_text(FlopRate{flops / plan_s}))};
  }
  const auto bytes = static_cast<double>(facts->bytes.count);
  return Cause{
      .kind = DifferenceCause::bandwidth,
      .rank = {},
      .reason = fmt::format("{}, and {} were predicted", rounded_text(Bandwidth{bytes / real_s}),
                            rounded_text(Bandwidth{bytes / plan_s}))};
}

/// The first one that finds something has it.
constexpr std::array<Found (*)(const Case&), 8> rules{
    other_size,        waited_for_collective,         issued_late, peer_came_late, not_on_processor,
    shared_the_device, same_instructions_took_longer, other_rate};

double median_clock(const Trace& trace) {
  std::vector<double> rates;
  for (std::size_t i = 0; i < trace.spans.size(); ++i) {
    const auto cycles = measure_of(trace, i, "cycles");
    const std::int64_t time = trace.spans[i].duration.ns;
    if (cycles && time > 0)
      rates.push_back(static_cast<double>(*cycles) / static_cast<double>(time));
  }
  return lower_median(std::move(rates));
}

std::vector<OperationSpans> spans_of(const std::vector<const Trace*>& traces) {
  std::vector<OperationSpans> spans;
  for (const Trace* trace : traces) spans.emplace_back(*trace);
  return spans;
}

}  // namespace

DifferenceEvidence::DifferenceEvidence(const Trace& predicted, std::vector<const Trace*> profiled)
    : plan_(predicted),
      profiled_(std::move(profiled)),
      facts_(real()),
      spans_(spans_of(profiled_)),
      usual_clock_(median_clock(real())) {}

std::optional<DifferenceEvidence::LatePeer> DifferenceEvidence::late_peer(
    std::uint32_t span) const {
  const auto waited = measure_of(real(), span, "waiting_ns");
  const auto last = measure_of(real(), span, "last_rank");
  if (!waited || !last) return late_peer_by_traces(real().spans[span]);
  if (*last == real().rank || *waited <= 0) return std::nullopt;
  return LatePeer{.rank = static_cast<int>(*last), .by = {*waited}};
}

std::optional<DifferenceEvidence::LatePeer> DifferenceEvidence::late_peer_by_traces(
    const Span& span) const {
  const OperationFacts* facts = facts_.find(span.operation);
  if (facts == nullptr || !is_collective(facts->kind)) return std::nullopt;
  const std::int64_t own_ns = real().base_ns + span.start.ns;
  std::optional<LatePeer> latest;
  for (std::size_t i = 1; i < profiled_.size(); ++i) {
    const Trace& peer = *profiled_[i];
    const auto at = spans_[i].find(span.step, span.operation);
    const std::vector<int> group = facts->ranks.list();
    if (!at || std::ranges::find(group, peer.rank) == group.end()) continue;
    const Duration by{peer.base_ns + peer.spans[*at].start.ns - own_ns};
    const auto& residual = peer.recording.clock_residual;
    const auto& own_residual = real().recording.clock_residual;
    const bool is_known = residual && own_residual && by > *residual + *own_residual;
    if (is_known && (!latest || by > latest->by)) latest = LatePeer{.rank = peer.rank, .by = by};
  }
  return latest;
}

Cause cause_of(const OperationDifference& difference, const OperationRun& plan,
               const OperationRun& real, const DifferenceEvidence& evidence) {
  const Case the_case{.difference = difference, .plan = plan, .real = real, .evidence = evidence};
  for (const auto rule : rules) {
    if (Found cause = rule(the_case)) return *cause;
  }
  return {.kind = DifferenceCause::unknown, .rank = {}, .reason = "no rule explains it"};
}

}  // namespace shardscope
