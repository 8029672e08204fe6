// Training on a device whose memory is not the host's, against the CPU device with its plain matrix
// product: the CUDA kernels, emulated, in memory that the host cannot touch; and a GPU, where there
// is one.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "backend/comm/single/communicator.h"
#include "backend/cpu/cpu_device.h"
#include "backend/cuda/cuda_device.h"
#include "backend/cuda/cuda_target.h"
#include "backend/train/trainer.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "tests/backend/cuda/emulated_device.h"
#include "tests/backend/train/tiny_models.h"
#include "tests/backend/train/training_fixture.h"

namespace shardscope {
namespace {

struct TrainedHere {
  std::string_view config;
  ShardingStrategy sharding;
  Precision precision;
};
void PrintTo(const TrainedHere& c, std::ostream* out) {
  *out << name_of(c.sharding) << " in " << name_of(c.precision);
}

/// Losses and gradient norms, step by step.
std::vector<double> train_on(Device& device, const Job& job) {
  const std::unique_ptr<Communicator> world = make_single_communicator(device.memory());
  Trainer trainer(job, *world, device);
  std::vector<double> figures;
  for (std::int64_t step = 0; step < job.steps; ++step) {
    const StepMetrics metrics = trainer.run_step().metrics;
    figures.push_back(metrics.loss);
    figures.push_back(metrics.gradient_norm);
  }
  return figures;
}

class DeviceMemoryTest : public TrainingFixture, public ::testing::WithParamInterface<TrainedHere> {
 protected:
  Job job_of(const TrainedHere& trained) const {
    Job one = job(trained.config, 1, trained.sharding, "unused");
    one.strategy.precision = trained.precision;
    one.check = false;
    return one;
  }
  static void expect_as_on_the_cpu(Device& device, const Job& job) {
    const auto cpu = make_cpu_device({.threads = 1, .use_onednn = false});
    const auto ours = train_on(device, job), expected = train_on(*cpu, job);
    // In bfloat16 a last digit that falls another way is a difference of 2^-9.
    const double rounding = job.strategy.precision == Precision::fp32 ? 1e-5 : 0.02;
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(ours[i], expected[i], rounding * expected[i]) << i / 2;
  }
};

TEST_P(DeviceMemoryTest, TrainsAsTheCpuDeviceDoes) {
  Job one = job_of(GetParam());
  one.batch = 1;
  one.steps = 2;
  expect_as_on_the_cpu(*test::make_emulated_cuda_device(), one);
}

TEST_P(DeviceMemoryTest, TrainsOnAGpuAsOnTheCpu) {
  if (const std::string why = why_no_cuda_device(); !why.empty()) GTEST_SKIP() << why;
  Job one = job_of(GetParam());
  one.steps = 10;
  expect_as_on_the_cpu(*make_cuda_device({.use_cublaslt = true}), one);
  expect_as_on_the_cpu(*make_cuda_device({.use_cublaslt = false}), one);
}

TEST_P(DeviceMemoryTest, HandsItsKernelsTheBytesThatArePredictedWithoutIt) {
  const Job one = job_of(GetParam());
  const auto emulated = test::make_emulated_cuda_device();
  const std::unique_ptr<Communicator> world = make_single_communicator(emulated->memory());
  Trainer trainer(one, *world, *emulated);
  trainer.run_step();

  const Schedule predicted = native_schedule(trainer.model(), resolved(one.strategy, 1, "test"),
                                             {.batch = one.batch,
                                              .length = one.seq,
                                              .micro_batches = one.accumulate,
                                              .optimizer = one.optimizer,
                                              .clip = one.clip},
                                             0, cuda_target(false));
  EXPECT_EQ(trainer.executor().arena_bytes(), arena_layout(predicted).size);
  EXPECT_EQ(trainer.executor().live_bytes(), live_bytes(predicted));
  const auto with_scratch = [](const CategoryBytes& live) {
    return live[MemoryCategory::workspace] > Bytes{};
  };
  EXPECT_TRUE(std::ranges::any_of(trainer.executor().live_bytes(), with_scratch));
}

INSTANTIATE_TEST_SUITE_P(
    TinyModels, DeviceMemoryTest,
    ::testing::Values(TrainedHere{tiny_gpt2, ShardingStrategy::no_shard, Precision::fp32},
                      TrainedHere{tiny_gpt2, ShardingStrategy::full_shard, Precision::bf16_mixed},
                      TrainedHere{tiny_llama, ShardingStrategy::full_shard, Precision::fp32},
                      TrainedHere{tiny_llama, ShardingStrategy::zero1, Precision::bf16}));

}  // namespace
}  // namespace shardscope
