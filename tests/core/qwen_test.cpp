// Qwen of 2023. Expectations: counted in modeling_qwen.py (Qwen/Qwen-7B on the Hub) and in
// flash-attn 2.3.3's files, by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/model/huggingface.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/make_module.h"
#include "tests/core/complaint.h"
#include "tests/core/operator_log.h"

namespace shardscope {
namespace {

/// 3 blocks of 2 heads of 64; w1 and w2 have half of intermediate_size each.
JsonValue small_config() {
  return JsonValue::parse(R"({"model_type": "qwen", "vocab_size": 100, "hidden_size": 128,
      "num_hidden_layers": 3, "num_attention_heads": 2, "kv_channels": 64, "intermediate_size": 96,
      "torch_dtype": "bfloat16"})",
                          "config.json");
}

TEST(Qwen, HasOneProjectionForQueryKeyAndValue) {
  const Model model = model_of_config(small_config());
  const auto shape = [&](std::string_view name) {
    const ParameterId id = model.find(name);
    return id.valid() ? model.parameters[id.value].shape : Shape{};
  };
  EXPECT_EQ(shape("transformer.h.2.attn.c_attn.weight"), (Shape{384, 128}));
  EXPECT_EQ(shape("transformer.h.2.attn.c_attn.bias"), Shape{384});
  EXPECT_EQ(shape("transformer.h.0.mlp.w2.weight"), (Shape{48, 128}));
  EXPECT_EQ(shape("transformer.h.0.mlp.c_proj.bias"), Shape{});
  // 2 V C + L (3 C^2 + 3 C + C^2 + 3 C F + 2 C) + C
  EXPECT_EQ(model.parameter_elements(),
            2 * 100 * 128 + 3 * (4 * 128 * 128 + 5 * 128 + 3 * 128 * 48) + 128);
}

TEST(Qwen, RefusesHeadsThatDoNotDivideTheWidth) {
  const JsonValue config = JsonValue::parse(
      R"({"model_type": "qwen", "hidden_size": 100, "num_attention_heads": 3})", "config.json");
  EXPECT_THAT(complaint_of([&] { model_of_config(config); }),
              testing::HasSubstr("hidden_size 100 is not a multiple of num_attention_heads 3"));
}

// Two norms a block and one at the end; queries and keys turned in float32, whose cosines are kept
// for twice the length: 2 * 8 * 64 * 4 bytes.
TEST(Qwen, RunsTheKernelsOfFlashAttention) {
  eager::OperatorLog log;  // outlives the tensors that it is told of
  eager::Session s;
  const JsonValue config = small_config();
  const Model model = model_of_config(config);
  const auto module = eager::make_module(s, model, config, eager::usual_settings(model));
  s.observe(log);
  const auto ids = eager::empty(s, {1, 8}, {Dtype::int64, eager::Device::cuda});
  const eager::Tensors outputs = eager::call(s, *module, {ids, {}, {}});
  EXPECT_EQ(outputs[1].sizes(), (eager::Dims{1, 8, 100}));
  const auto names = log.names();
  const auto count = [&](std::string_view name) {
    return std::ranges::count_if(names, [&](const std::string& n) { return n.ends_with(name); });
  };
  EXPECT_EQ(count("dropout_add_ln_fwd"), 2 * 3 + 1);
  EXPECT_EQ(count("rotary_kernel"), 2 * 3);
  EXPECT_EQ(std::ranges::count_if(
                log.lives(),
                [](const auto& life) { return life.bytes == 2 * 8 * 64 * 4 && life.freed < 0; }),
            2);
}

}  // namespace
}  // namespace shardscope
