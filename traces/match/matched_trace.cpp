#include "traces/match/matched_trace.h"

#include <algorithm>
#include <map>

namespace shardscope {
namespace {

/// Where the prediction has an operation.
std::map<OperationId, const Span*> spans_of(const Trace& predicted) {
  std::map<OperationId, const Span*> spans;
  for (const Span& span : predicted.spans)
    if (span.operation && is_on_device(predicted, span)) spans.emplace(span.operation, &span);
  return spans;
}

class Builder {
 public:
  Builder(const Trace& predicted, const ImportedTrace& profiled)
      : profiled_(profiled), spans_(spans_of(predicted)) {
    trace_.kind = TraceKind::imported;
    trace_.rank = profiled.rank.value_or(predicted.rank);
    trace_.world = profiled.world.value_or(predicted.world);
    trace_.base_ns = profiled.base_ns;
    trace_.names = predicted.names;
    trace_.tracks = predicted.tracks;
    trace_.facts = predicted.facts;
  }

  void add(OperationId operation, std::uint32_t event, Duration duration, std::size_t step) {
    const auto like = spans_.find(operation);
    if (like == spans_.end()) return;
    Span span = *like->second;
    span.start = {profiled_.events.start_ns[event]};
    span.duration = duration;
    span.step = static_cast<std::int32_t>(step) + 1;
    trace_.spans.push_back(span);
  }

  Trace finish() {
    std::stable_sort(trace_.spans.begin(), trace_.spans.end(), [](const Span& a, const Span& b) {
      return std::pair(a.track, a.start) < std::pair(b.track, b.start);
    });
    return std::move(trace_);
  }

 private:
  const ImportedTrace& profiled_;
  std::map<OperationId, const Span*> spans_;
  Trace trace_;
};

}  // namespace

Trace matched_trace(const Trace& predicted, const ImportedTrace& profiled, const RankMatch& match) {
  Builder builder(predicted, profiled);
  for (const ComputePair& pair : match.compute)
    builder.add(pair.operation, pair.event, pair.profiled, pair.step);
  for (const CollectivePair& pair : match.collectives)
    if (pair.profiled) builder.add(pair.operation, pair.event, *pair.profiled, pair.step);
  return builder.finish();
}

}  // namespace shardscope
