#include "core/pytorch/plans/model_size.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/format/json_reader.h"
#include "core/model/huggingface.h"

namespace shardscope {
namespace {

/// 2 layers of width 64: what accelerate 1.15.0 says of it was recorded (case llama_small_tied).
Model small_llama() {
  return model_of_config(
      JsonValue::parse(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
                           "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 96,
                           "tie_word_embeddings": true})",
                       "config.json"),
      {.class_name = "LlamaForCausalLM", .dtype = Dtype::float32});
}

// The head is tied, and counts again: 96 * 64 * 4 bytes.
TEST(ModelSizes, CountATiedParameterOncePerPlace) {
  const ModelSizes sizes = model_sizes(small_llama());
  EXPECT_EQ(sizes.total.count, 378176);
  EXPECT_EQ(sizes.parameter_elements, 94528);
  const auto head = std::find_if(sizes.by_name.begin(), sizes.by_name.end(),
                                 [](const auto& row) { return row.first == "lm_head"; });
  ASSERT_NE(head, sizes.by_name.end());
  EXPECT_EQ(head->second.count, 24576);
}

// A layer: 4 * 64 * 64 + 3 * 64 * 128 + 2 * 64 elements of 4 bytes.
TEST(ModelSizes, FindTheLargestLayers) {
  const ModelSizes sizes = model_sizes(small_llama());
  EXPECT_EQ(sizes.largest_layer.count, 164352);
  EXPECT_EQ(sizes.largest_layers, (std::vector<std::string>{"model.layers.0", "model.layers.1"}));
}

TEST(LoadEstimates, PrintTheCommandsTable) {
  const std::vector<std::string> table = load_estimate_table(
      "local_model", load_estimates(model_sizes(small_llama()), {"float32", "int4"}));
  ASSERT_EQ(table.size(), 8u);
  EXPECT_EQ(table[1], "│       Memory Usage for loading `local_model`       │");
  EXPECT_EQ(table[5], "│float32│   160.5 KB  │369.31 KB │      1.44 MB      │");
  EXPECT_EQ(table[6], "│  int4 │   20.06 KB  │ 46.16 KB │        N/A        │");
}

TEST(ConvertedBytes, KeepIntsBelowAKilobyte) {
  EXPECT_EQ(converted_bytes(0, true), "0 bytes");
  EXPECT_EQ(converted_bytes(1023, true), "1023 bytes");
  EXPECT_EQ(converted_bytes(512, false), "512.0 bytes");
  EXPECT_EQ(converted_bytes(1536, true), "1.5 KB");
  EXPECT_EQ(converted_bytes(1048575, true), "1024.0 KB");  // rounded, not carried over
}

}  // namespace
}  // namespace shardscope
