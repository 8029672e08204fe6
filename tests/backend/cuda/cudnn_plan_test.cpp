// cuDNN plans our attention for a GPU that is only described, and compiles its kernels: what it
// takes, and what workspace it wants, is known without one. What they compute is not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cuda/cuda_workspace.h"
#include "backend/cuda/cudnn_attention.h"
#include "backend/cuda/cudnn_graph.h"
#include "backend/cuda/cudnn_library.h"
#include "tests/backend/cpu/attention_reference.h"

namespace shardscope::test {
namespace {

/// Figures of an H100 SXM and an A100 SXM 80 GB, in the words in which cuDNN writes a device down.
/// Source: CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability".
std::string device_json(int version, int multiprocessors, int shared_optin, int l2_bytes) {
  return fmt::format(
      R"({{"deviceName": "described", "cudaDeviceId": 0, "deviceId": 0, "deviceVer": {}, "driverVer": 13000,
          "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
          "multiProcessorCount": {}, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
          "maxSharedMemoryPerBlockOptin": {}, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
          "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0,
          "isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": 1410000, "memClockRateKHz": 1593000,
          "l2CacheSize": {}, "totalGlobalMem": 85000000000}})",
      version, multiprocessors, shared_optin, l2_bytes);
}

struct Planned {
  const char* name;
  AttentionCase attention;
};
const std::vector<Planned> cases{
    {"gpt2 124M", {64, 12, 12, 1024, 64, 0}},  {"gpt2 1.5B", {4, 25, 25, 1024, 64, 0}},
    {"llama 8B", {1, 32, 8, 2048, 128, 0}},    {"odd, grouped", {2, 4, 2, 100, 80, 0}},
    {"odd, one head", {1, 2, 1, 130, 40, 0}},  {"one query", {1, 1, 1, 1, 64, 0}},
    {"rows with gaps", {2, 3, 3, 257, 96, 32}}};

class CudnnPlan : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!cuda::why_no_cudnn().empty()) GTEST_SKIP() << cuda::why_no_cudnn();
  }
};

// The bound on the workspace is part of every schedule: no plan that we take may want more, and one
// there must be.
TEST_P(CudnnPlan, IsThereForEveryShapeWithinTheWorkspaceThatSchedulesHave) {
  const bool hopper = std::string(GetParam()) == "sm_90";
  const cuda::CudnnDescriptor device = cuda::cudnn_device(
      hopper ? device_json(900, 132, 232448, 50 << 20) : device_json(800, 108, 166912, 40 << 20));
  for (const Planned& planned : cases) {
    AttentionKernel shape = attention_kernel(planned.attention);
    shape.dtype = Dtype::bfloat16;
    const Kernel forward = AttentionForwardKernel{shape}, backward = AttentionBackwardKernel{shape};
    for (const Kernel& kernel : {forward, backward}) {
      ASSERT_TRUE(fits_cudnn_attention(kernel));
      const auto plan = cuda::plan_attention(kernel, device);
      ASSERT_TRUE(plan) << planned.name << ", " << name_of(kernel.kind());
      EXPECT_LE(plan->workspace, cuda_workspace(kernel, true, CudaAttention::cudnn));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, CudnnPlan, ::testing::Values("sm_90", "sm_80"));

// 64 x 12 heads of 1024 x 1024 pairs in bfloat16: 1.5 GiB, which nothing else in a step of GPT-2
// 124M comes near.
TEST(CudnnWorkspace, OfTheBackwardGrowsWithTheSquareOfTheLength) {
  AttentionBackwardKernel kernel{attention_kernel({64, 12, 12, 1024, 64, 0})};
  kernel.dtype = Dtype::bfloat16;
  const Bytes pairs{std::int64_t{64} * 12 * 1024 * 1024 * 2};
  EXPECT_GT(cuda_workspace(kernel, true, CudaAttention::cudnn), pairs);
  EXPECT_LT(cuda_workspace(kernel, true, CudaAttention::cudnn), pairs + 4_MiB);
  EXPECT_LT(cuda_workspace(kernel, true, CudaAttention::automatic), 4_MiB);
}

TEST(CudnnWorkspace, IsOnlyForWhatCudnnTakes) {
  AttentionForwardKernel kernel{attention_kernel({1, 1, 1, 64, 20, 0})};
  kernel.dtype = Dtype::bfloat16;
  EXPECT_FALSE(wants_cudnn(kernel, CudaAttention::cudnn));
  kernel.head_dim = kernel.q_stride = kernel.kv_stride = 64;
  EXPECT_TRUE(wants_cudnn(kernel, CudaAttention::automatic));
  EXPECT_FALSE(wants_cudnn(kernel, CudaAttention::own));
  AttentionBackwardKernel backward{kernel};
  EXPECT_FALSE(wants_cudnn(backward, CudaAttention::automatic));
  EXPECT_TRUE(wants_cudnn(backward, CudaAttention::cudnn));
  backward.dtype = Dtype::float32;
  EXPECT_FALSE(wants_cudnn(backward, CudaAttention::cudnn));
}

}  // namespace
}  // namespace shardscope::test
