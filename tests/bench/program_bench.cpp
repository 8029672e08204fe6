// How long it takes to write down three steps of Llama-3 under FSDP1 on 64 GPUs as a schedule, and
// to play them with host, device clock and caching allocator; per step, without and with a trace.
#include <benchmark/benchmark.h>

#include <array>

#include "core/model/huggingface.h"
#include "core/pytorch/runtimes/training/recorded_schedule.h"
#include "sim/cost/cost_model.h"
#include "sim/engine/clock_options.h"
#include "sim/engine/program_player.h"
#include "sim/engine/simulate.h"
#include "sim/engine/timed_device.h"
#include "tests/bench/llama3_configs.h"

namespace shardscope {
namespace {

constexpr int steps = 3;

struct Training {
  JsonValue config;
  Model model;
  eager::TrainingSetup setup;
  explicit Training(std::string_view text)
      : config(JsonValue::parse(text, "llama3")),
        model(model_of_config(config, {.dtype = Dtype::bfloat16})) {
    setup.world = 64;
    setup.runtime = eager::Fsdp1Setup{
        .units = {.world = 64, .auto_wrap = TransformerWrap{{"LlamaDecoderLayer"}}}, .options = {}};
    setup.loop = {.batch = 1, .length = 2048};
  }
  Schedule recorded() const { return eager::recorded_schedule(model, config, setup); }
};

void record(benchmark::State& state, std::string_view text) {
  const Training training(text);
  std::size_t actions = 0, operations = 0;
  for (auto _ : state) {
    const Schedule schedule = training.recorded();
    actions = schedule.program.actions.size();
    operations = schedule.operations.size();
  }
  state.counters["actions"] = static_cast<double>(actions);
  state.counters["operations"] = static_cast<double>(operations);
}
BENCHMARK_CAPTURE(record, llama3_8b, llama3_8b)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(record, llama3_405b, llama3_405b)->Unit(benchmark::kMillisecond);

void per_step(benchmark::State& state) {
  state.counters["s_per_step"] = benchmark::Counter(
      steps, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void play(benchmark::State& state, std::string_view text) {
  const Schedule schedule = Training(text).recorded();
  const HardwareProfile profile = find_hardware_profile("h100_sxm", "bench");
  for (auto _ : state) {
    const StepCosts costs{.times = operation_times(schedule, CostModel(profile)),
                          .uses = {},
                          .clock = clock_options(schedule, profile)};
    TimedDevice device(schedule, costs);
    CachingAllocator allocator({}, {.total = 1024_GiB}, device);
    ProgramPlayer player({.schedule = schedule, .allocator = &allocator, .device = device});
    player.play_until(schedule.steps.back().actions.end);
    device.finish();
    benchmark::DoNotOptimize(device.last_end());
  }
  per_step(state);
}
BENCHMARK_CAPTURE(play, llama3_8b, llama3_8b)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(play, llama3_405b, llama3_405b)->Unit(benchmark::kMillisecond);

void play_with_trace(benchmark::State& state, std::string_view text) {
  const Schedule schedule = Training(text).recorded();
  const HardwareProfile profile = find_hardware_profile("h100_sxm", "bench");
  const AllocatorChoice memory{.memory = DeviceCapacity{.total = 1024_GiB}};
  for (auto _ : state) benchmark::DoNotOptimize(simulate(schedule, profile, memory));
  per_step(state);
}
BENCHMARK_CAPTURE(play_with_trace, llama3_8b, llama3_8b)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace shardscope
