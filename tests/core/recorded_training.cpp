#include "tests/core/recorded_training.h"

#include <string_view>

#include "core/model/huggingface.h"

namespace shardscope::testing {
namespace {

constexpr std::string_view llama = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
  "hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 64,
  "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "use_cache": false, "vocab_size": 256})";

}  // namespace

Schedule recorded_llama(const eager::TrainingSetup& setup) {
  const JsonValue config = JsonValue::parse(llama, "llama");
  return eager::recorded_schedule(model_of_config(config), config, setup);
}

eager::TrainingSetup plain_setup() { return {.loop = {.batch = 2, .length = 32}}; }

eager::TrainingSetup fsdp1_setup(ShardingStrategy strategy) {
  eager::TrainingSetup setup = plain_setup();
  setup.world = 4;
  setup.runtime = eager::Fsdp1Setup{.units = {.world = 4,
                                              .strategy = strategy,
                                              .auto_wrap = TransformerWrap{{"LlamaDecoderLayer"}}},
                                    .options = {}};
  return setup;
}

eager::TrainingSetup ddp_setup() {
  eager::TrainingSetup setup = plain_setup();
  setup.world = 2;
  eager::ddp::Options options;
  options.buckets.bucket_cap_mib = 0.1;
  setup.runtime = options;
  return setup;
}

eager::TrainingSetup fsdp2_setup() {
  eager::TrainingSetup setup = plain_setup();
  setup.world = 4;
  setup.runtime = eager::Fsdp2Setup{
      .mesh = {4},
      .calls = {{.modules = {"model.layers.0", "model.layers.1", "model.layers.2"},
                 .reshard_after_forward = {}},
                {.modules = {""}, .reshard_after_forward = {}}},
      .mixed_precision = {.param_dtype = Dtype::bfloat16, .reduce_dtype = Dtype::float32},
      .offload = {},
      .ignored_parameters = {}};
  return setup;
}

eager::TrainingSetup deepspeed_setup(int stage) {
  eager::TrainingSetup setup = plain_setup();
  setup.world = 4;
  setup.made_on = eager::Device::cpu;
  setup.trainable_dtype = Dtype::bfloat16;
  DeepSpeedSettings settings;
  settings.stage = stage;
  settings.overlap_comm = true;
  settings.precision = Dtype::bfloat16;
  settings.param_persistence_elements = 100;
  setup.runtime = eager::DeepSpeedSetup{settings};
  return setup;
}

eager::TrainingSetup setup_of(const std::string& runtime) {
  if (runtime == "plain") return plain_setup();
  if (runtime == "ddp") return ddp_setup();
  if (runtime == "fsdp1") return fsdp1_setup();
  if (runtime == "fsdp2") return fsdp2_setup();
  return deepspeed_setup(runtime == "deepspeed2" ? 2 : 3);
}

}  // namespace shardscope::testing
