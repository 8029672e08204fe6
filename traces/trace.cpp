#include "traces/trace.h"

#include <algorithm>
#include <utility>

namespace shardscope {

std::string_view name_of(TraceKind kind) {
  switch (kind) {
    case TraceKind::predicted:
      return "predicted";
    case TraceKind::profiled:
      return "profiled";
    case TraceKind::imported:
      return "imported";
  }
  return "imported";
}

std::string_view name_of(SpanClass span_class) {
  switch (span_class) {
    case SpanClass::compute:
      return "compute";
    case SpanClass::communication:
      return "communication";
    case SpanClass::copy:
      return "copy";
    case SpanClass::host:
      return "host";
    case SpanClass::annotation:
      return "annotation";
  }
  return "annotation";
}

std::string_view name_of(MemoryHolder::Place place) {
  return place == MemoryHolder::Place::host ? "host" : "device";
}

bool is_on_device(const Trace& trace, const Span& span) {
  if (span.span_class == SpanClass::host || span.span_class == SpanClass::annotation) return false;
  return trace.tracks[span.track].stream != Stream::host;
}

std::span<const SpanMeasure> measures_of(const Trace& trace, std::size_t span) {
  const auto found = std::ranges::equal_range(trace.span_measures, span, {}, &SpanMeasure::span);
  return {found.begin(), found.end()};
}

std::optional<std::int64_t> measure_of(const Trace& trace, std::size_t span,
                                       std::string_view measure) {
  for (const SpanMeasure& row : measures_of(trace, span)) {
    if (trace.measures[row.measure] == measure) return row.value;
  }
  return std::nullopt;
}

std::uint16_t intern_measure(Trace& trace, std::string_view name) {
  const auto at = std::ranges::find(trace.measures, name);
  const auto index = static_cast<std::uint16_t>(at - trace.measures.begin());
  if (at == trace.measures.end()) trace.measures.emplace_back(name);
  return index;
}

void sort_measures(Trace& trace) {
  std::ranges::stable_sort(trace.span_measures, {},
                           [](const SpanMeasure& row) { return std::pair(row.span, row.measure); });
}

FactsTable::FactsTable(const Trace& trace) {
  by_operation_.reserve(trace.facts.size());
  for (const OperationFacts& facts : trace.facts) by_operation_.push_back(&facts);
  const auto is_before = [](const auto* a, const auto* b) { return a->operation < b->operation; };
  if (!std::ranges::is_sorted(by_operation_, is_before))
    std::ranges::stable_sort(by_operation_, is_before);
}

const OperationFacts* FactsTable::find(OperationId operation) const {
  // Of a prediction, operations are numbered as their facts are.
  const std::size_t place = operation.value;
  if (place < by_operation_.size() && by_operation_[place]->operation == operation &&
      (place == 0 || by_operation_[place - 1]->operation < operation))
    return by_operation_[place];
  const auto at =
      std::lower_bound(by_operation_.begin(), by_operation_.end(), operation,
                       [](const auto* facts, OperationId id) { return facts->operation < id; });
  return at != by_operation_.end() && (*at)->operation == operation ? *at : nullptr;
}

}  // namespace shardscope
