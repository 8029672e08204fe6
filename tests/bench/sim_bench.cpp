// How long it takes to simulate one steady step of Llama-3-8B under FULL_SHARD, for 8 and for 1024
// GPUs.
#include <benchmark/benchmark.h>

#include "core/model/huggingface.h"
#include "core/schedule.h"
#include "sim/hardware_profile.h"
#include "sim/simulate.h"

namespace shardscope {
namespace {

/// config.json of Llama-3-8B, as published.
constexpr std::string_view llama3_8b = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 8192,
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": false,
  "vocab_size": 128256})";

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
