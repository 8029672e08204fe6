// How long it takes to simulate one steady step of Llama-3-8B under FSDP2, schedule given: the
// costs of its distinct operations and the repetitions until it is steady; for 8 and for 16,384
// GPUs. And what the schedule costs that is given.
#include <benchmark/benchmark.h>

#include "core/model/huggingface.h"
#include "core/pytorch/runtimes/training/recorded_schedule.h"
#include "core/pytorch/runtimes/training/requested_setup.h"
#include "sim/engine/step_player.h"
#include "tests/bench/llama3_configs.h"

namespace shardscope {
namespace {

struct Training {
  JsonValue config = JsonValue::parse(llama3_8b, "llama3_8b");
  Model model = model_of_config(config, {.dtype = Dtype::bfloat16});
  eager::TrainingSetup setup;
  explicit Training(int world)
      : setup(eager::requested_setup(model, {.runtime = Runtime::fsdp2,
                                             .precision = TrainingPrecision::bf16_mixed,
                                             .world = world,
                                             .ranks_per_node = 8})) {
    setup.loop.batch = 1;
    setup.loop.length = 2048;
  }
  Schedule recorded() const { return eager::recorded_schedule(model, config, setup); }
};

void simulate_fsdp2_step(benchmark::State& state) {
  const Schedule schedule = Training(static_cast<int>(state.range(0))).recorded();
  const HardwareProfile profile = find_hardware_profile("h100_sxm", "bench");
  const CostModel model(profile);
  const StepProgram program = step_program(schedule);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        play(program, step_costs(schedule, program, model, profile)).accounting.span);
  state.counters["operations"] = static_cast<double>(program.operations());
  state.counters["distinct"] = static_cast<double>(program.examples.size());
  state.counters["simulations_per_s"] =
      benchmark::Counter(1, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(simulate_fsdp2_step)->Arg(8)->Arg(16384)->Unit(benchmark::kMicrosecond);

void record_fsdp2(benchmark::State& state) {
  const Training training(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(training.recorded());
}
BENCHMARK(record_fsdp2)->Arg(8)->Arg(16384)->Unit(benchmark::kMillisecond);

void compact_fsdp2_step(benchmark::State& state) {
  const Schedule schedule = Training(64).recorded();
  for (auto _ : state) benchmark::DoNotOptimize(step_program(schedule));
}
BENCHMARK(compact_fsdp2_step)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace shardscope
