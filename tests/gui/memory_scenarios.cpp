#include "tests/gui/memory_scenarios.h"

#include <memory>

namespace shardscope::testing {
namespace {

Trace step_trace(TraceKind kind, std::int64_t us_ns, std::int64_t more) {
  Trace trace;
  trace.kind = kind;
  trace.names = {"all_gather", "forward", "backward"};
  trace.tracks = {{.name = "compute", .stream = Stream::compute}};
  const std::string units[] = {"layers.0", "layers.0", "layers.0"};
  CategoryBytes resting;
  resting[MemoryCategory::parameters] = {1000};
  const auto sample = [&](std::int64_t us, OperationId operation, CategoryBytes live) {
    trace.memory.push_back({.time = {us * us_ns}, .operation = operation, .live = live});
  };
  for (std::uint32_t i = 0; i < 3; ++i) {
    trace.spans.push_back({.start = {(10 + 10 * i) * us_ns},
                           .duration = {10 * us_ns},
                           .name = i,
                           .operation = {i},
                           .step = 1});
    trace.facts.push_back({.operation = {i},
                           .name = trace.names[i],
                           .kind = i == 0 ? OperationKind::all_gather : OperationKind::compute,
                           .phase = i == 2 ? Phase::backward : Phase::forward,
                           .unit = units[i]});
  }
  CategoryBytes live = resting;
  live[MemoryCategory::parameters] = {3000};
  sample(10, {0}, live);
  live[MemoryCategory::activations] = {3000 + more};
  sample(20, {1}, live);
  live[MemoryCategory::parameters] = {1000};
  live[MemoryCategory::gradients] = {1500};
  sample(30, {2}, live);
  sample(40, {}, resting);
  return trace;
}

decltype(gui::Side::buffers) buffers() {
  return {{.name = "weights", .unit = "", .category = MemoryCategory::parameters, .bytes = {1000}},
          {.name = "gathered",
           .unit = "layers.0",
           .category = MemoryCategory::parameters,
           .bytes = {2000},
           .allocated_by = {0},
           .freed_by = {1}},
          {.name = "activation",
           .unit = "layers.0",
           .category = MemoryCategory::activations,
           .bytes = {3000},
           .allocated_by = {1},
           .freed_by = {2}},
          {.name = "gradient",
           .unit = "layers.0",
           .category = MemoryCategory::gradients,
           .bytes = {1500},
           .allocated_by = {2},
           .freed_by = {2}}};
}

gui::Side side_of(gui::SideKind kind, const Trace& trace) {
  gui::Side side{.kind = kind};
  side.summary = summarize(trace, {.strategy = "full_shard", .device_memory = Bytes{10'000}});
  side.ranks = {std::make_shared<const Trace>(trace)};
  return side;
}

}  // namespace

gui::ScenarioPointer memory_scenario(const std::string& label, std::int64_t more) {
  using gui::SideKind;
  auto scenario = std::make_shared<gui::Scenario>();
  scenario->label = label;
  scenario->path = "runs/" + label;
  scenario->predicted = side_of(SideKind::predicted, step_trace(TraceKind::predicted, 1000, 0));
  scenario->predicted->buffers = buffers();
  scenario->profiled = side_of(SideKind::profiled, step_trace(TraceKind::profiled, 2000, more));
  return scenario;
}

}  // namespace shardscope::testing
