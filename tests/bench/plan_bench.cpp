// How long it takes to plan Llama-3-8B on 64 H100, and GPT-2 under DeepSpeed on 16,384: every
// strategy of every runtime bounded, those that may be the best simulated, the first places played
// with the allocator.
#include <benchmark/benchmark.h>

#include <string_view>

#include "core/model/huggingface.h"
#include "sim/planner/estimate.h"
#include "sim/planner/search.h"
#include "tests/bench/llama3_configs.h"

namespace shardscope::planner {
namespace {

constexpr std::string_view gpt2 = R"({
  "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
  "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257})";

void plan(benchmark::State& state, std::string_view text, const Question& question) {
  const JsonValue config = JsonValue::parse(text, "config.json");
  const Model model = model_of_config(config, {.dtype = Dtype::bfloat16});
  const HardwareProfile profile = find_hardware_profile("h100_sxm", "bench");
  const CostModel costs(profile);
  const Target target;
  Findings findings(model, config);
  const TrialInputs inputs{.model = model,
                           .config = config,
                           .training = question.training,
                           .profile = profile,
                           .costs = costs,
                           .native_target = target,
                           .findings = &findings};
  std::size_t choices = 0, simulated = 0;
  for (auto _ : state) {  // once: a second search would find everything known
    const Enumeration all = enumerate(model, question);
    const SearchResult result = search(all.choices, inputs, {});
    choices = all.choices.size();
    simulated = result.simulated;
  }
  state.counters["choices"] = static_cast<double>(choices);
  state.counters["simulated"] = static_cast<double>(simulated);
}

void plan_llama3_8b(benchmark::State& state) {
  plan(state, llama3_8b,
       {.runtimes = {Runtime::fsdp1, Runtime::fsdp2, Runtime::ddp, Runtime::deepspeed},
        .precisions = {TrainingPrecision::bf16_mixed, TrainingPrecision::bf16,
                       TrainingPrecision::fp32},
        .world = 64,
        .tokens_per_batch = state.range(0) * 64 * 4096,
        .training = {.length = 4096}});
}
BENCHMARK(plan_llama3_8b)
    ->Arg(4)
    ->Arg(16)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

/// Argument: sequences of a rank and step.
void plan_gpt2_deepspeed(benchmark::State& state) {
  constexpr int ranks = 16384;
  plan(state, gpt2,
       {.runtimes = {Runtime::deepspeed},
        .precisions = {TrainingPrecision::bf16_mixed},
        .world = ranks,
        .tokens_per_batch = state.range(0) * ranks * 1024,
        .training = {.length = 1024}});
}
BENCHMARK(plan_gpt2_deepspeed)
    ->Arg(1)
    ->Arg(16)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace shardscope::planner
