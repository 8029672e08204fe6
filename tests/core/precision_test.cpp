// Precision: what each element type costs, in the schedule and in single kernels.
#include "core/base/precision.h"

#include <algorithm>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/schedule/kernel.h"
#include "core/schedule/schedule.h"
#include "tests/core/complaint.h"
#include "tests/core/small_models.h"

namespace shardscope {
namespace {

using ::testing::HasSubstr;

Schedule schedule_of(const Model& model, Precision precision, ShardingStrategy sharding,
                     int world) {
  const Strategy strategy = resolved({.sharding = sharding, .precision = precision}, world, "test");
  return native_schedule(model, strategy, {.batch = 2, .length = 4, .clip = 1.0}, 0);
}

/// Of the buffers of unit transformer.h.0, by name without the unit's.
std::map<std::string, std::int64_t> bytes_of_block(const Schedule& schedule) {
  const std::string unit = ":transformer.h.0";
  std::map<std::string, std::int64_t> bytes;
  for (const Buffer& buffer : schedule.buffers)
    if (const std::string_view name = schedule.name(buffer); name.ends_with(unit))
      bytes[std::string(name.substr(0, name.size() - unit.size()))] = buffer.bytes.count;
  return bytes;
}

Collective collective_of(const Schedule& schedule, std::string_view name) {
  for (const Operation& op : schedule.operations)
    if (schedule.name(op) == name) return schedule.collectives[op.detail];
  ADD_FAILURE() << "no collective " << name;
  return {};
}

// The block of the small GPT-2 has 12 parameters of at most 256 elements, each filled up to 256:
// 3072 elements, on two ranks shards of 1536.
using Sizes = std::map<std::string, std::int64_t>;

TEST(Precision, MixedGathersBfloat16AndKeepsTheRestInFloat32) {
  const Schedule schedule =
      schedule_of(testing::small_gpt2(1), Precision::bf16_mixed, ShardingStrategy::full_shard, 2);
  EXPECT_EQ(bytes_of_block(schedule), (Sizes{{"parameters", 1536 * 2},
                                             {"unsharded_parameters", 3072 * 2},
                                             {"master", 1536 * 4},
                                             {"adam_m", 1536 * 4},
                                             {"adam_v", 1536 * 4},
                                             {"unsharded_gradients", 3072 * 4},
                                             {"gradients", 1536 * 4}}));
  EXPECT_EQ(collective_of(schedule, "all_gather:transformer.h.0").dtype, Dtype::bfloat16);
  EXPECT_EQ(collective_of(schedule, "reduce_scatter:transformer.h.0").dtype, Dtype::float32);
}

TEST(Precision, MixedZero1ShardsTheMasterAndKeepsWholeBfloat16Parameters) {
  const Schedule schedule =
      schedule_of(testing::small_gpt2(1), Precision::bf16_mixed, ShardingStrategy::zero1, 2);
  EXPECT_EQ(bytes_of_block(schedule), (Sizes{{"parameters", 3072 * 2},
                                             {"master", 1536 * 4},
                                             {"adam_m", 1536 * 4},
                                             {"adam_v", 1536 * 4},
                                             {"gradients", 3072 * 4}}));
  const Collective updated = collective_of(schedule, "all_gather:transformer.h.0");
  EXPECT_EQ(updated.dtype, Dtype::bfloat16);
  EXPECT_EQ(updated.elements_in, 1536);
}

TEST(Precision, PureBfloat16HasNoMaster) {
  const Schedule schedule =
      schedule_of(testing::small_gpt2(1), Precision::bf16, ShardingStrategy::full_shard, 2);
  EXPECT_EQ(bytes_of_block(schedule), (Sizes{{"parameters", 1536 * 2},
                                             {"unsharded_parameters", 3072 * 2},
                                             {"adam_m", 1536 * 2},
                                             {"adam_v", 1536 * 2},
                                             {"unsharded_gradients", 3072 * 2},
                                             {"gradients", 1536 * 2}}));
  EXPECT_EQ(collective_of(schedule, "reduce_scatter:transformer.h.0").dtype, Dtype::bfloat16);
}

TEST(Precision, FrozenUnitsHaveNoMaster) {
  Model model = testing::small_gpt2(1);
  for (Parameter& p : model.parameters) p.trainable = p.name == "transformer.wte.weight";
  const Schedule schedule =
      schedule_of(model, Precision::bf16_mixed, ShardingStrategy::full_shard, 2);
  EXPECT_EQ(bytes_of_block(schedule),
            (Sizes{{"parameters", 1536 * 2}, {"unsharded_parameters", 3072 * 2}}));
}

TEST(Precision, ActivationsAreHalvedAndStatisticsAreNot) {
  // R 8, C 8, V 16. At the loss live: embedding, the blocks' outputs and the final norm's, 4 *
  // 8*8*2 = 512; its mean and rstd 2 * 8*4; logits 8*16*2. Each of two blocks adds two norms'
  // outputs 256 and their statistics 128, qkv 8*24*2 = 384, attention 128 and lse 8*2*4 = 64, the
  // middle residual 128, c_fc's output and gelu 2 * 8*32*2 = 1024: 2112.
  for (const Precision precision : {Precision::bf16, Precision::bf16_mixed}) {
    const Schedule schedule =
        schedule_of(testing::small_gpt2(2), precision, ShardingStrategy::no_shard, 1);
    const auto live = live_bytes(schedule);
    for (std::size_t i = 0; i < live.size(); ++i) {
      if (schedule.name(schedule.operations[i]) != "loss cross_entropy") continue;
      EXPECT_EQ(live[i][MemoryCategory::activations].count, 512 + 64 + 256 + 2 * 2112);
    }
  }
}

TEST(Precision, RotaryTablesStayFloat32) {
  const Schedule schedule =
      schedule_of(testing::small_llama(1), Precision::bf16_mixed, ShardingStrategy::no_shard, 1);
  const auto table = std::ranges::find_if(
      schedule.buffers, [&](const Buffer& b) { return schedule.name(b) == "rope_table"; });
  ASSERT_NE(table, schedule.buffers.end());
  EXPECT_EQ(table->bytes.count, 4 * 4 * 4);  // T D float32
}

TEST(Precision, KernelsMoveTheBytesOfTheirTypes) {
  const LinearForwardKernel forward{.dtype = Dtype::bfloat16, .rows = 4, .in = 8, .out = 16};
  EXPECT_EQ(bytes_of(forward), 2_B * (4 * 8 + 8 * 16 + 4 * 16));
  // x and dy in two bytes, dweight in four.
  LinearBackwardWeightKernel weight{.dtype = Dtype::bfloat16, .rows = 4, .in = 8, .out = 16};
  EXPECT_EQ(bytes_of(weight), 2_B * (4 * 8 + 4 * 16) + 4_B * (8 * 16));
  weight.gradient_dtype = Dtype::bfloat16;
  EXPECT_EQ(bytes_of(weight), 2_B * (4 * 8 + 4 * 16 + 8 * 16));
  // x, y and weight in two bytes; mean and rstd of each row in four.
  EXPECT_EQ(bytes_of(NormForwardKernel{
                .dtype = Dtype::bfloat16, .has_bias = true, .rows = 4, .width = 8}),
            2_B * (2 * 4 * 8 + 2 * 8) + 4_B * (2 * 4));
  // AdamW reads g, and reads and writes p, m and v: 28 bytes an element; 2 more for the copy.
  EXPECT_EQ(bytes_of(AdamWKernel{.has_copy = true, .elements = 100}), 30_B * 100);
  EXPECT_EQ(bytes_of(AdamWKernel{
                .dtype = Dtype::bfloat16, .gradient_dtype = Dtype::bfloat16, .elements = 100}),
            14_B * 100);
}

TEST(Precision, IsParsedAndNamed) {
  for (const char* name : {"fp32", "bf16", "bf16_mixed"})
    EXPECT_EQ(name_of(parse_precision(name, "--precision")), name);
  EXPECT_THAT(complaint_of([] { parse_precision("int8", "--precision"); }),
              HasSubstr("--precision: \"int8\" is none of fp32, bf16, bf16_mixed"));
  EXPECT_THAT(complaint_of([] { parse_precision("fp16_mixed", "--precision"); }),
              HasSubstr("loss scaler"));
}

}  // namespace
}  // namespace shardscope
