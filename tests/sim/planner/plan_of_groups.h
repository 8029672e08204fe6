// A question whose layouts of torchtitan come in groups.
#pragma once

#include <cstdint>
#include <string>

#include "core/model/huggingface.h"
#include "sim/planner/answer/inputs.h"
#include "tests/sim/planner/answer/tiny_plan.h"

namespace shardscope::planner {

/// Blocks of half of Llama-3-8B's width, so many, and 4 heads of keys and values.
inline std::string llama_of(int blocks) {
  return R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "hidden_size": 2048, "intermediate_size": 7168, "max_position_embeddings": 8192,
    "num_attention_heads": 16, "num_hidden_layers": )" +
         std::to_string(blocks) + R"(, "num_key_value_heads": 4, "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0, "tie_word_embeddings": false, "use_cache": false,
    "vocab_size": 32768})";
}

/// On two nodes of four H100, so many sequences of 4,096 tokens a step.
inline Inputs plan_of_groups(int blocks, int sequences) {
  Inputs inputs = tiny_plan();
  inputs.config = JsonValue::parse(llama_of(blocks), "config.json");
  inputs.model = model_of_config(inputs.config);
  inputs.profile = find_hardware_profile("h100_sxm", "--cluster");
  inputs.profile.ranks_per_node = 4;
  inputs.question.runtimes = {};
  inputs.question.torchtitan = true;
  inputs.question.all_layouts = true;
  inputs.question.precisions = {TrainingPrecision::bf16_mixed};
  inputs.question.world = 8;
  inputs.question.training.length = 4096;
  inputs.question.tokens_per_batch = std::int64_t{4096} * sequences;
  return inputs;
}

/// Pipelines of 8 blocks on 8 devices, on which the caching allocator has no room for many that fit
/// by their tensors.
inline Inputs tight_pipelines() {
  Inputs inputs = plan_of_groups(8, 32);
  inputs.question.all_layouts = false;
  inputs.profile.memory = 10000_MiB;
  return inputs;
}

}  // namespace shardscope::planner
