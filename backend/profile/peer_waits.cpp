#include "backend/profile/peer_waits.h"

#include <algorithm>
#include <utility>

#include "backend/executor/step_recorder.h"
#include "traces/operation_spans.h"

namespace shardscope {

LastArrival last_arrival(const Ranks& group, std::span<const std::int64_t> by_rank) {
  LastArrival last{.time_ns = by_rank[static_cast<std::size_t>(group.front())],
                   .rank = group.front()};
  for (const int rank : group) {
    const std::int64_t time_ns = by_rank[static_cast<std::size_t>(rank)];
    if (time_ns > last.time_ns) last = {.time_ns = time_ns, .rank = rank};
  }
  return last;
}

PeerWaits::PeerWaits(Executor& executor, Communicator& world,
                     std::function<std::int64_t()> clock_offset)
    : executor_(executor), world_(world), clock_offset_(std::move(clock_offset)) {
  const Schedule& schedule = executor.schedule();
  place_of_.resize(schedule.operations.size());
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    if (!is_collective(schedule.operations[i].kind)) continue;
    place_of_[i] = collectives_.size();
    collectives_.push_back(OperationId::of(i));
  }
}

void PeerWaits::start() {
  steps_.clear();
  lay_out_step();
}

void PeerWaits::lay_out_step() {
  steps_.push_back(
      {.step = 0, .own_ns = std::vector<std::int64_t>(collectives_.size()), .last = {}});
}

void PeerWaits::begin(OperationId operation) {
  if (!is_collective(executor_.schedule().at(operation).kind)) return;
  steps_.back().own_ns[place_of_[operation.value]] = monotonic_ns();
}

void PeerWaits::stop() {
  steps_.pop_back();
  const std::int64_t offset_ns = clock_offset_();
  for (Arrivals& step : steps_) exchange(step, offset_ns);
}

/// The schedules of all ranks have the same collectives in the same places.
void PeerWaits::exchange(Arrivals& step, std::int64_t offset_ns) {
  const std::size_t count = collectives_.size();
  const auto ranks = static_cast<std::size_t>(world_.size());
  std::vector<std::int64_t> own = step.own_ns, all(count * ranks), by_rank(ranks);
  for (std::int64_t& time_ns : own) time_ns += offset_ns;
  executor_.between_steps([&] {
    world_.all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
  });
  const Schedule& schedule = executor_.schedule();
  for (std::size_t place = 0; place < count; ++place) {
    for (std::size_t rank = 0; rank < ranks; ++rank) by_rank[rank] = all[rank * count + place];
    const Collective& what = schedule.collectives[schedule.at(collectives_[place]).detail];
    LastArrival last = last_arrival(schedule.groups[what.group.value].ranks, by_rank);
    last.time_ns -= offset_ns;
    step.last.push_back(last);
  }
}

void PeerWaits::add_to(Trace& trace, const MeasuredWindow& window) {
  const OperationSpans spans(trace);
  const std::uint16_t waiting = intern_measure(trace, "waiting_ns");
  const std::uint16_t last_rank = intern_measure(trace, "last_rank");
  for (const Arrivals& step : steps_) {
    for (std::size_t place = 0; place < collectives_.size(); ++place) {
      const auto span = spans.find(step.step, collectives_[place]);
      if (!span) continue;
      const Span& collective = trace.spans[*span];
      const std::int64_t last_ns = step.last[place].time_ns - window.base_monotonic_ns;
      trace.span_measures.push_back(
          {.span = *span,
           .measure = waiting,
           .value =
               std::clamp<std::int64_t>(last_ns - collective.start.ns, 0, collective.duration.ns)});
      trace.span_measures.push_back(
          {.span = *span, .measure = last_rank, .value = step.last[place].rank});
    }
  }
  sort_measures(trace);
}

}  // namespace shardscope
