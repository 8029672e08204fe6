// What kernels take beside their outputs, where no recording of a stand-in can say it.
#include "core/pytorch/engine/kernel_scratch.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/session.h"

namespace shardscope::eager {
namespace {

constexpr std::string_view cudnn_backward =
    "aten._scaled_dot_product_cudnn_attention_backward.default";

std::int64_t taken_by_cudnn(std::int64_t heads, std::int64_t key_heads) {
  Session s{{.device = Device::cpu}};
  const Tensor query = allocate(s, {Dtype::bfloat16, Device::cuda}, {4, heads, 512, 64});
  const Tensor key = allocate(s, {Dtype::bfloat16, Device::cuda}, {4, key_heads, 512, 64});
  const std::array<const TensorImpl*, 4> inputs{query.impl(), query.impl(), key.impl(), key.impl()};
  const Operator op{cudnn_backward};
  ScratchPlan plan;
  scratch_rule_of(cudnn_backward)({.op = op, .inputs = inputs, .outputs = {}}, {}, plan);
  std::int64_t bytes = 0;
  for (const ScratchPlan::Step& step : plan.steps())
    if (step.kind == ScratchPlan::Kind::take) bytes += step.value;
  return bytes;
}

// Requests of PyTorch 2.11's allocator on an H200: tests/gpu/scripts/gpt2_autocast.py, mixtral.py,
// and fsdp1_qwen2.py.
TEST(KernelScratch, OfCudnnsAttentionIsWhatPyTorchAskedForOnAGpu) {
  EXPECT_EQ(taken_by_cudnn(12, 12), 6'390'016);
  EXPECT_EQ(taken_by_cudnn(8, 4), 8'454'400);
  EXPECT_EQ(taken_by_cudnn(14, 2), 14'795'008);
}

std::vector<std::int64_t> taken_by_embedding(std::int64_t tokens) {
  constexpr std::string_view backward = "aten.embedding_dense_backward.default";
  Session s{{.device = Device::cpu}};
  const Tensor gradient = allocate(s, {Dtype::float32, Device::cuda}, {4, tokens / 4, 1024});
  const Tensor indices = allocate(s, {Dtype::int64, Device::cuda}, {4, tokens / 4});
  const Tensor weight = allocate(s, {Dtype::float32, Device::cuda}, {128'256, 1024});
  const std::array<const TensorImpl*, 2> inputs{gradient.impl(), indices.impl()};
  const std::array<const TensorImpl*, 1> outputs{weight.impl()};
  const Operator op{backward};
  ScratchPlan plan;
  scratch_rule_of(backward)({.op = op, .inputs = inputs, .outputs = outputs}, {}, plan);
  std::vector<std::int64_t> bytes;
  for (const ScratchPlan::Step& step : plan.steps())
    if (step.kind == ScratchPlan::Kind::take) bytes.push_back(step.value);
  return bytes;
}

// Requests of torch 2.15 in the recording of sft_mid (tests/data/trl), less those of cub.
TEST(KernelScratch, OfEmbeddingsGradientIsWhatPyTorchAskedFor) {
  EXPECT_EQ(taken_by_embedding(8192), (std::vector<std::int64_t>{65'536, 65'536, 65'536, 65'536,
                                                                 65'536, 72'088, 36'909'056}));
  EXPECT_TRUE(taken_by_embedding(3072).empty());
}

/// Bytes of the workspace around an operator on a bias and two matrices, or on the matrices alone,
/// on a device of that capability.
std::int64_t workspace_of(std::string_view product, int capability) {
  Session s{{.device = Device::cpu}};
  const Tensor matrix = allocate(s, {Dtype::bfloat16, Device::cuda}, {64, 64});
  const Tensor bias = allocate(s, {Dtype::bfloat16, Device::cuda}, {64});
  const std::array<const TensorImpl*, 3> all{bias.impl(), matrix.impl(), matrix.impl()};
  const bool adds = product == "aten.addmm.default";
  const std::span<const TensorImpl* const> inputs = std::span(all).subspan(adds ? 0 : 1);
  const std::array<const TensorImpl*, 1> outputs{matrix.impl()};
  const Operator op{product};
  ScratchPlan plan;
  scratch_rule_of(product)({.op = op, .inputs = inputs, .outputs = outputs},
                           kernel_device(capability), plan);
  std::int64_t bytes = 0;
  for (const ScratchPlan::Step& step : plan.steps())
    if (step.kind == ScratchPlan::Kind::take) bytes += step.value;
  return bytes;
}

// ATen/cuda/CublasHandlePool.cpp: ":4096:2:16:8" KiB, 32 MiB on Hopper and Blackwell, 128 MiB of
// ROCm on gfx942 (9.4).
TEST(KernelScratch, OfAProductFollowsTheGpu) {
  EXPECT_EQ(workspace_of("aten.mm.default", 80), 8'519'680);
  EXPECT_EQ(workspace_of("aten.mm.default", 90), 33'554'432);
  EXPECT_EQ(workspace_of("aten.mm.default", 94), 134'217'728);
  EXPECT_EQ(workspace_of("aten.mm.default", 100), 33'554'432);
}

// ATen/cuda/CUDABlas.cpp: 1024 KiB, "Use 76 MB for hipBLASLt".
TEST(KernelScratch, OfABiasInTheEpilogueFollowsTheGpu) {
  EXPECT_EQ(workspace_of("aten.addmm.default", 80), 1'048'576);
  EXPECT_EQ(workspace_of("aten.addmm.default", 94), 79'691'776);
}

}  // namespace
}  // namespace shardscope::eager
