// Quantised bases: how they are asked for, and which kernel multiplies by them.
#include "core/model/quantization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/read_quantization.h"
#include "core/pytorch/engine/adapters/quantized.h"
#include "core/pytorch/engine/dispatch.h"
#include "tests/core/complaint.h"

namespace shardscope {
namespace {

TEST(ReadQuantization, TakesTransformersDefaults) {
  const auto read = read_quantization(JsonValue::parse(
      R"({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true}})", "c"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kind, QuantizationKind::fp4);
  EXPECT_EQ(read->compute_dtype, Dtype::float32);
  EXPECT_EQ(read->storage_dtype, Dtype::uint8);
  EXPECT_FALSE(read->double_quantization);
}

TEST(ReadQuantization, NamesAMethodThatIsNotModelled) {
  EXPECT_THAT(complaint_of([] {
                read_quantization(JsonValue::parse(
                    R"({"quantization_config": {"quant_method": "hqq", "bits": 4}})", "c"));
              }),
              testing::HasSubstr("the method hqq is not modelled"));
}

TEST(ReadQuantization, TakesPackedWeights) {
  const auto gptq = read_quantization(JsonValue::parse(
      R"({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 64}})", "c"));
  ASSERT_TRUE(gptq);
  EXPECT_EQ(gptq->kind, QuantizationKind::gptq);
  EXPECT_EQ(gptq->group_size, 64);
  const auto awq = read_quantization(JsonValue::parse(
      R"({"quantization_config": {"quant_method": "awq", "w_bit": 4, "q_group_size": 128}})", "c"));
  ASSERT_TRUE(awq);
  EXPECT_EQ(awq->kind, QuantizationKind::awq);
  EXPECT_THAT(complaint_of([] {
                read_quantization(JsonValue::parse(
                    R"({"quantization_config": {"quant_method": "gptq", "bits": 8}})", "c"));
              }),
              testing::HasSubstr("8 bits are not modelled"));
}

/// A weight of 32 outputs and 256 inputs: eight 4-bit numbers in an int32; of each of two groups
/// 32 scales in float16 and 32 zeros of 4 bits; GPTQ's group of each input beside.
TEST(PackedLayer, KeepsWhatTheFilesHold) {
  for (const QuantizationKind kind : {QuantizationKind::gptq, QuantizationKind::awq}) {
    eager::Session s;
    eager::QuantizedLayer layer({.kind = kind}, {32, 256}, Dtype::float16);
    eager::Tensor codes;
    const eager::Tensor whole = eager::allocate(s, {Dtype::float16, s.settings.device}, {32, 256});
    const eager::Tensor packed = layer.quantize(s, whole, codes);
    EXPECT_EQ(bytes_of(packed.numel(), packed.dtype()), Bytes{32 * 256 / 2});
    std::int64_t beside = 0;
    for (const auto& [name, tensor] : layer.state())
      beside += bytes_of(tensor.numel(), tensor.dtype()).count;
    const std::int64_t order = kind == QuantizationKind::gptq ? 256 * 4 : 0;
    EXPECT_EQ(beside, 2 * 32 * 2 + 2 * 32 / 2 + order);
  }
}

TEST(ParseQuantization, ReadsSettingsOf4Bits) {
  const Quantization read = parse_quantization("nf4,double,storage=bfloat16", "--quantization");
  EXPECT_EQ(read.kind, QuantizationKind::nf4);
  EXPECT_TRUE(read.double_quantization);
  EXPECT_EQ(read.storage_dtype, Dtype::bfloat16);
  EXPECT_EQ(read.compute_dtype, Dtype::bfloat16);
}

// Pull request 1270 of bitsandbytes came with 0.43.2.
TEST(ParseQuantization, KnowsWhichVersionsKeepInputs) {
  const auto keeps = [](const char* text) {
    return parse_quantization(text, "--quantization").keeps_inputs;
  };
  EXPECT_FALSE(keeps("nf4"));
  EXPECT_TRUE(keeps("nf4,bitsandbytes=0.43.1"));
  EXPECT_TRUE(keeps("nf4,double,bitsandbytes=0.42"));
  EXPECT_FALSE(keeps("nf4,bitsandbytes=0.43.2"));
  EXPECT_FALSE(keeps("nf4,bitsandbytes=1.0"));
}

TEST(ParseQuantization, SaysWhatIsWrong) {
  const auto said = [](const char* text) {
    return complaint_of([&] { parse_quantization(text, "--quantization"); });
  };
  EXPECT_THAT(said("int4"), testing::HasSubstr("\"int4\" is none of nf4, fp4, int8, gptq, awq"));
  EXPECT_THAT(said("gptq,double"), testing::HasSubstr("group=128 is"));
  EXPECT_THAT(said("awq,group=0"), testing::HasSubstr("is no positive number"));
  EXPECT_THAT(said("int8,double"), testing::HasSubstr("a setting of 4 bits"));
  EXPECT_THAT(said("nf4,bitsandbytes=new"), testing::HasSubstr("bitsandbytes=new is no version"));
  EXPECT_THAT(said("nf4,bitsandbytes=0.43-1"), testing::HasSubstr("is no version"));
}

/// By hand from _gemm_4bit_use_custom_cuda on 132 multiprocessors.
TEST(Gemm4bit, DequantisesLargeBatchesOnHopper) {
  const eager::Gemm4bit product{
      .compute_capability = 90, .dtype = Dtype::bfloat16, .rows = 2048, .out = 4096, .in = 4096};
  EXPECT_FALSE(eager::uses_own_kernel(product));  // more than 1,536 rows
}

TEST(Gemm4bit, MultipliesShortWeightsItselfOnHopper) {
  // 344 x 128: in * 2 < out, 6 tiles of the output are less than a third of a wave: up to 512 rows.
  eager::Gemm4bit product{
      .compute_capability = 90, .dtype = Dtype::bfloat16, .rows = 512, .out = 344, .in = 128};
  EXPECT_TRUE(eager::uses_own_kernel(product));
  product.rows = 513;
  EXPECT_FALSE(eager::uses_own_kernel(product));
}

TEST(Gemm4bit, LeavesRowsThatAreNoWholeBlocks) {
  EXPECT_FALSE(eager::uses_own_kernel({.compute_capability = 90,
                                       .dtype = Dtype::bfloat16,
                                       .rows = 1,
                                       .out = 4096,
                                       .in = 4096 + 32}));
}

}  // namespace
}  // namespace shardscope
