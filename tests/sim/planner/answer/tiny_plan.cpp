#include "tests/sim/planner/answer/tiny_plan.h"

#include <utility>

#include "core/model/huggingface.h"

namespace shardscope::planner {
namespace {

constexpr std::string_view llama = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 128, "intermediate_size": 384, "max_position_embeddings": 256,
  "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "use_cache": false, "vocab_size": 2048})";

HardwareProfile two_nodes_of_two() {
  return {.name = "two nodes of two",
          .device = "cuda",
          .memory = 4_GiB,
          .compute_capability = 90,
          .peak = {2e12},
          .peak_bfloat16 = FlopRate{8e12},
          .memory_bandwidth = {100e9},
          .operation_overhead = 2_us,
          .link = Link{.bandwidth = {20e9}, .latency = 2_us},
          .network = Link{.bandwidth = {2e9}, .latency = 5_us},
          .ranks_per_node = 2};
}

}  // namespace

Inputs tiny_plan() {
  JsonValue config = JsonValue::parse(llama, "config.json");
  Model model = model_of_config(config);
  return {.question = {.runtimes = {Runtime::ddp, Runtime::fsdp2},
                       .precisions = {TrainingPrecision::bf16_mixed},
                       .world = 4,
                       .tokens_per_batch = 4 * 2 * 64,
                       .training = {.length = 64}},
          .model = std::move(model),
          .config = std::move(config),
          .profile = two_nodes_of_two(),
          .margin = Bytes{}};
}

Choice tiny_choice() {
  return {.runtime = Runtime::fsdp2,
          .sharding = ShardingStrategy::full_shard,
          .mesh = {.shard = 4},
          .prefetch = Prefetch::pre,
          .batch = 2};
}

Summary summary_with(const Figures& figures) {
  constexpr std::int64_t ms = 1'000'000;
  Summary summary;
  summary.time.compute = {figures.compute_ms * ms};
  summary.time.exposed_communication = {figures.communication_ms * ms};
  summary.time.span = summary.time.compute + summary.time.exposed_communication;
  summary.step_time = summary.step_time_low = summary.step_time_high = summary.time.span;
  summary.memory.peak_reserved = figures.reserved;
  return summary;
}

Candidate candidate_with(const Figures& figures) {
  return {.choice = tiny_choice(), .summary = summary_with(figures)};
}

}  // namespace shardscope::planner
