// What kernels take beside their outputs, where no recording of a stand-in can say it.
#include "core/pytorch/engine/kernel_scratch.h"

#include <gtest/gtest.h>

#include <array>

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

}  // namespace
}  // namespace shardscope::eager
