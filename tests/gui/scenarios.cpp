#include "tests/gui/scenarios.h"

namespace shardscope::testing {
namespace {

Duration at(double us) { return {static_cast<std::int64_t>(us * 1000)}; }

Trace small_trace(TraceKind kind, double stretch, std::int64_t begin_us) {
  Trace trace;
  trace.kind = kind;
  trace.world = 2;
  trace.names = {"forward layers.0", "all_gather layers.1"};
  trace.tracks = {{.name = "compute", .stream = Stream::compute},
                  {.name = "unshard", .stream = Stream::unshard}};
  const Duration begin = at(static_cast<double>(begin_us));
  trace.spans = {{.start = begin,
                  .duration = at(60 * stretch),
                  .name = 0,
                  .track = 0,
                  .operation = {1},
                  .step = 1},
                 {.start = begin + at(40 * stretch),
                  .duration = at(60 * stretch),
                  .name = 1,
                  .track = 1,
                  .span_class = SpanClass::communication,
                  .operation = {2},
                  .step = 1}};
  MemorySample first{.time = begin, .operation = {1}};
  first.live[MemoryCategory::parameters] = {10 << 20};
  MemorySample second = first;
  second.time = begin + at(20 * stretch);
  second.live[MemoryCategory::activations] = {5 << 20};
  trace.memory = {first, second};
  trace.facts = {{.operation = {1},
                  .name = "forward layers.0",
                  .kind = OperationKind::compute,
                  .phase = Phase::forward,
                  .unit = "layers.0",
                  .bytes = {4096}},
                 {.operation = {2},
                  .name = "all_gather layers.1",
                  .kind = OperationKind::all_gather,
                  .phase = Phase::forward,
                  .unit = "layers.1",
                  .bytes = {8192},
                  .group = "shard"}};
  return trace;
}

gui::Side small_side(gui::SideKind kind, double stretch, std::int64_t begin_us) {
  const bool predicted = kind == gui::SideKind::predicted;
  gui::Side side{.kind = kind};
  const Trace trace =
      small_trace(predicted ? TraceKind::predicted : TraceKind::profiled, stretch, begin_us);
  side.summary = summarize(trace, {.strategy = "full_shard"});
  side.ranks = {std::make_shared<const Trace>(trace)};
  return side;
}

}  // namespace

gui::ScenarioPointer small_scenario(const std::string& label, double stretch,
                                    std::int64_t begin_us) {
  auto scenario = std::make_shared<gui::Scenario>();
  scenario->label = label;
  scenario->path = "runs/" + label;
  scenario->predicted = small_side(gui::SideKind::predicted, 1, 0);
  scenario->profiled = small_side(gui::SideKind::profiled, stretch, begin_us);
  scenario->findings = {{gui::Severity::warning, "trace.0.json.gz", "2 events skipped: no time"}};
  return scenario;
}

gui::ScenarioPointer late_rank_scenario(const std::string& label, std::int64_t late_us) {
  auto scenario = std::make_shared<gui::Scenario>(*small_scenario(label, 1));
  Trace first = *scenario->profiled->ranks[0];
  first.recording.clock_residual = 1_us;
  first.facts[1].ranks = Ranks{0, 1};
  Trace second = first;
  second.rank = 1;
  second.spans[1].start.ns += late_us * 1000;
  second.spans[1].duration.ns -= late_us * 1000;
  scenario->profiled->ranks = {std::make_shared<const Trace>(first),
                               std::make_shared<const Trace>(second)};
  return scenario;
}

}  // namespace shardscope::testing
