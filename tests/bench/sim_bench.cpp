// How long it takes to simulate one steady step of Llama-3-8B under FULL_SHARD, for 8 and for 1024
// GPUs.
#include <benchmark/benchmark.h>

#include "core/model/huggingface.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/schedule/schedule.h"
#include "sim/engine/simulate.h"
#include "sim/hardware/hardware_profile.h"
#include "tests/bench/llama3_configs.h"

namespace shardscope {
namespace {

void simulate_llama3_8b(benchmark::State& state) {
  const int world = static_cast<int>(state.range(0));
  const Model model = model_of_config(JsonValue::parse(llama3_8b, "llama3_8b"));
  const Strategy strategy = resolved({.sharding = ShardingStrategy::full_shard}, world, "bench");
  const Schedule schedule = native_schedule(model, strategy, {.batch = 1, .length = 4096}, 0);
  const HardwareProfile profile = find_hardware_profile("h100_sxm", "bench");
  for (auto _ : state) benchmark::DoNotOptimize(simulate(schedule, profile).accounting.span);
  state.counters["operations"] = static_cast<double>(schedule.operations.size());
}
BENCHMARK(simulate_llama3_8b)->Arg(8)->Arg(1024)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace shardscope
