// DeepSpeed at run time: what its engine keeps by itself. Sizes are worked out by hand from the
// rules in the comments; the real library's allocations are compared by `check_recordings
// allocator`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/runtimes/deepspeed/engine.h"

namespace shardscope::eager {
namespace {

using testing::UnorderedElementsAre;
using EagerModule = eager::Module;

/// A linear layer with a weight of 4 x 6 and no bias.
std::shared_ptr<EagerModule> layer(Session& s) {
  auto module = std::make_shared<EagerModule>();
  module->class_name = "Linear";
  const Tensor weight = empty(s, {4, 6}, {.dtype = Dtype::float32, .device = Device::cuda});
  weight.set_requires_grad(true);
  module->parameters.push_back({.name = "weight", .tensor = weight});
  module->forward = [](Session& session, EagerModule& self, const Arguments& arguments) -> Tensors {
    return {linear(session, arguments[0], self.parameter("weight"))};
  };
  return module;
}

/// One step of the layer on 2 ranks.
struct Step {
  explicit Step(const DeepSpeedSettings& settings) : module(layer(s)), groups(2, 0) {
    engine = std::make_unique<deepspeed::Engine>(
        s, groups, deepspeed::Engine::Request{.model = *module, .settings = settings});
    const Tensor loss =
        sum(s, engine->forward({empty(s, {2, 6}, {.dtype = settings.precision})}).front());
    engine->backward(loss);
    engine->step();
  }

  /// Category and bytes of what is held on the device.
  std::vector<std::pair<MemoryCategory, std::int64_t>> on_device() const {
    std::vector<std::pair<MemoryCategory, std::int64_t>> rows;
    for (const deepspeed::HeldTensor& held : engine->held())
      if (held.tensor.device() == Device::cuda)
        rows.emplace_back(held.category, held.tensor.storage()->bytes().count);
    return rows;
  }

  Session s;
  std::shared_ptr<EagerModule> module;
  ProcessGroups groups;
  std::unique_ptr<deepspeed::Engine> engine;
};

DeepSpeedSettings bf16_stage(int stage) {
  return {.stage = stage, .reduce_bucket_elements = 100, .precision = Dtype::bfloat16};
}

// 24 parameters are a multiple of 2 x 2 ranks: whole in bf16 48 bytes, a rank's 12 in float32 48.
TEST(DeepSpeedRuntime, Stage2KeepsWholeParametersAndAPartOfTheMasters) {
  const Step step(bf16_stage(2));
  using enum MemoryCategory;
  EXPECT_THAT(
      step.on_device(),
      UnorderedElementsAre(std::pair(parameters, 48), std::pair(optimizer_states, 48),
                           std::pair(optimizer_states, 48), std::pair(optimizer_states, 48)));
}

// BF16_Optimizer keeps all 24 gradients in float32 on every rank, which its masters' views are.
TEST(DeepSpeedRuntime, Bf16OptimizerKeepsWholeGradientsInFloat32) {
  DeepSpeedSettings settings = bf16_stage(1);
  settings.accumulation_dtype = Dtype::float32;
  const Step step(settings);
  using enum MemoryCategory;
  EXPECT_THAT(
      step.on_device(),
      UnorderedElementsAre(std::pair(parameters, 48), std::pair(optimizer_states, 48),
                           std::pair(gradients, 96), std::pair(gradients, 96),
                           std::pair(optimizer_states, 48), std::pair(optimizer_states, 48)));
}

// A rank's 12 parameters and gradients in bf16 are 24 bytes each; the bucket's 100 elements stay.
TEST(DeepSpeedRuntime, Stage3KeepsAPartOfEverythingAndTheBucket) {
  DeepSpeedSettings settings = bf16_stage(3);
  settings.param_persistence_elements = 0;
  const Step step(settings);
  using enum MemoryCategory;
  EXPECT_THAT(
      step.on_device(),
      UnorderedElementsAre(std::pair(parameters, 24), std::pair(optimizer_states, 48),
                           std::pair(gradients, 24), std::pair(communication, 200),
                           std::pair(optimizer_states, 48), std::pair(optimizer_states, 48)));
}

// Masters, their gradients and the optimizer's state are the host's; a buffer as large as the
// largest parameter brings gradients back to be added to.
TEST(DeepSpeedRuntime, AnOffloadedOptimizerLeavesABufferOfTheLargestParameter) {
  DeepSpeedSettings settings = bf16_stage(2);
  settings.offload_optimizer.device = OffloadDevice::cpu;
  const Step step(settings);
  using enum MemoryCategory;
  EXPECT_THAT(step.on_device(),
              UnorderedElementsAre(std::pair(parameters, 48), std::pair(communication, 48)));
}

}  // namespace
}  // namespace shardscope::eager
