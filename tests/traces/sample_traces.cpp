#include "tests/traces/sample_traces.h"

#include <algorithm>

namespace shardscope::samples {
namespace {

constexpr std::int64_t step_ns = 100000;

struct Part {
  std::string name;
  OperationKind kind;
  SpanClass span_class;
  int track;
  std::int64_t start_us;
  std::int64_t end_us;
  Phase phase;
  std::string unit;
  Bytes bytes;
};

std::vector<Part> parts() {
  return {
      {"h.0.all_gather", OperationKind::all_gather, SpanClass::communication, 2, 0, 20,
       Phase::forward, "h.0", 400_B},
      {"h.0.forward", OperationKind::compute, SpanClass::compute, 1, 15, 40, Phase::forward, "h.0",
       900_B},
      {"h.0.backward", OperationKind::compute, SpanClass::compute, 1, 40, 70, Phase::backward,
       "h.0", 1900_B},
      {"h.0.reduce_scatter", OperationKind::reduce_scatter, SpanClass::communication, 3, 60, 90,
       Phase::backward, "h.0", 400_B},
      {"loss.copy", OperationKind::copy, SpanClass::copy, 4, 85, 95, Phase::other, "", 8_B},
      {"adamw", OperationKind::optimizer, SpanClass::compute, 1, 95, 100, Phase::optimizer, "",
       700_B},
  };
}

OperationFacts facts_of(const Part& part, std::uint32_t id) {
  OperationFacts facts{
      .operation = {id}, .name = part.name, .kind = part.kind, .phase = part.phase};
  facts.unit = part.unit;
  facts.bytes = part.bytes;
  facts.flops = {static_cast<std::int64_t>(id) * 1000};
  if (!is_collective(part.kind)) return facts;
  const bool is_gather = part.kind == OperationKind::all_gather;
  facts.group = "shard";
  facts.ranks = {0, 1};
  facts.elements_in = is_gather ? 50 : 100;
  facts.elements_out = is_gather ? 100 : 50;
  return facts;
}

void add_memory(Trace& trace, std::int64_t begin_ns) {
  struct Change {
    std::int64_t time_us;
    std::uint32_t operation;
    std::int64_t activations, gradients, communication;
  };
  const Change changes[] = {{0, 0, 0, 0, 400},
                            {15, 1, 300, 0, 400},
                            {40, 2, 300, 500, 0},
                            {70, 3, 0, 500, 0},
                            {90, 4, 0, 0, 0}};
  for (const Change& change : changes) {
    MemorySample sample{.time = {begin_ns + change.time_us * 1000},
                        .operation = {change.operation}};
    sample.live[MemoryCategory::parameters] = 1000_B;
    sample.live[MemoryCategory::activations] = {change.activations};
    sample.live[MemoryCategory::gradients] = {change.gradients};
    sample.live[MemoryCategory::communication] = {change.communication};
    trace.memory.push_back(sample);
  }
}

}  // namespace

Trace empty_trace(TraceKind kind) {
  Trace trace;
  trace.kind = kind;
  trace.world = 2;
  trace.device = "cpu: \"test\"";
  trace.arena = 2000_B;
  if (kind == TraceKind::profiled) trace.base_ns = 1763700000123456789;
  trace.tracks = {{"host", Stream::host},
                  {"compute", Stream::compute},
                  {"unshard", Stream::unshard},
                  {"reduce", Stream::reduce},
                  {"copy", Stream::copy}};
  return trace;
}

Span& add_span(Trace& trace, SpanClass span_class, int track, std::int64_t start_ns,
               std::int64_t end_ns) {
  if (trace.names.empty()) trace.names.push_back("span");
  Span span{.start = {start_ns}, .duration = {end_ns - start_ns}};
  span.track = static_cast<std::uint16_t>(track);
  span.span_class = span_class;
  trace.spans.push_back(span);
  return trace.spans.back();
}

Trace two_steps(TraceKind kind) {
  Trace trace = empty_trace(kind);
  for (const Part& part : parts()) {
    trace.facts.push_back(facts_of(part, static_cast<std::uint32_t>(trace.facts.size())));
    trace.names.push_back(part.name);
  }
  for (int step = 1; step <= 2; ++step) {
    const std::int64_t begin_ns = (step - 1) * step_ns;
    for (std::uint32_t id = 0; id < parts().size(); ++id) {
      const Part part = parts()[id];
      const auto add = [&](SpanClass span_class, int track, std::int64_t start_ns,
                           std::int64_t end_ns) {
        Span& span = add_span(trace, span_class, track, begin_ns + start_ns, begin_ns + end_ns);
        span.name = id;
        span.operation = {id};
        span.step = step;
      };
      if (id > 0) add(SpanClass::host, 0, part.start_us * 1000 - 2000, part.start_us * 1000 - 1000);
      add(part.span_class, part.track, part.start_us * 1000, part.end_us * 1000);
    }
    add_memory(trace, begin_ns);
  }
  return trace;
}

}  // namespace shardscope::samples
