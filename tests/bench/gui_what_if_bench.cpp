// How long What-if computes from a control to the ghost: the schedule recorded again, or simulated
// again on a machine of other figures.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <utility>

#include "core/model/read_model.h"
#include "gui/data/what_if.h"
#include "sim/hardware/builtin_profiles.h"

namespace shardscope::gui {
namespace {

WhatIfInputs inputs_of(const char* model, HardwareProfile machine) {
  WhatIfInputs inputs{.label = model,
                      .folder = {},
                      .job = {},
                      .model = {},
                      .config = {},
                      .machine = std::move(machine),
                      .target = {},
                      .measured_kernels = {},
                      .start = {},
                      .predicted = {},
                      .notes = {}};
  inputs.job.model = std::filesystem::path(SOURCE_ROOT) / model;
  inputs.model = read_model(inputs.job.model);
  inputs.config = JsonValue::read_file(inputs.job.model / "config.json", DuplicateKeys::last_wins);
  return inputs;
}

/// The demo's model on the CPU, natively.
WhatIfInputs demo() {
  WhatIfInputs inputs = inputs_of(
      "examples/demo/model",
      read_hardware_profile(std::filesystem::path(SOURCE_ROOT) / "tests/gui/two_ranks.json"));
  inputs.start.choice = {.mesh = {.shard = 2},
                         .prefetch = planner::Prefetch::both,
                         .batch = 4,
                         .precision = TrainingPrecision::fp32};
  inputs.start.length = 256;
  return inputs;
}

/// Llama-3-8B on two nodes of H100.
WhatIfInputs llama() {
  WhatIfInputs inputs =
      inputs_of("examples/models/llama_3_8b", find_hardware_profile("h100_sxm", "bench"));
  inputs.start.choice = {.runtime = Runtime::fsdp2,
                         .mesh = {.shard = 16},
                         .prefetch = planner::Prefetch::pre,
                         .checkpointing = {.every = 1}};
  inputs.start.length = 4096;
  return inputs;
}

void check(const WhatIfAnswer& answer, bool was_cached) {
  if (!answer.scenario || answer.was_cached != was_cached)
    throw std::runtime_error("no such prediction: " + answer.refusal);
}

/// Another strategy: nothing is kept.
void what_if_strategy(benchmark::State& state, WhatIfInputs (*inputs)()) {
  const auto start = std::make_shared<const WhatIfInputs>(inputs());
  for (auto _ : state) {
    WhatIf what_if(start);
    check(what_if.answer(start->start, false, {}), false);
  }
}
BENCHMARK_CAPTURE(what_if_strategy, demo, demo)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(what_if_strategy, llama_3_8b_fsdp2_x16, llama)->Unit(benchmark::kMillisecond);

/// Figures of the machine alone: the schedule is kept.
void what_if_machine(benchmark::State& state, WhatIfInputs (*inputs)()) {
  const auto start = std::make_shared<const WhatIfInputs>(inputs());
  WhatIf what_if(start);
  WhatIfSettings settings = start->start;
  check(what_if.answer(settings, false, {}), false);
  for (auto _ : state) {
    settings.scales.link_bandwidth *= 1.001;
    check(what_if.answer(settings, false, {}), true);
  }
}
BENCHMARK_CAPTURE(what_if_machine, demo, demo)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(what_if_machine, llama_3_8b_fsdp2_x16, llama)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardscope::gui
