// DeepSpeed at run time: what its engine keeps by itself. Sizes are worked out by hand from the
// rules in the comments; the real library's allocations are compared by `check_recordings
// allocator`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/runtimes/deepspeed/engine.h"
#include "core/pytorch/runtimes/record/schedule_recorder.h"

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
    for (const HeldTensor& held : engine->held())
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

class HookCounter final : public Observer {
 public:
  void on_module_hook(Session&, std::string_view name) override { names.emplace_back(name); }
  std::vector<std::string> names;
};

// A module is fetched and released in its forward and in its backward. Its input needs no gradient,
// so that no PostBackwardFunctionModule releases it there.
TEST(DeepSpeedRuntime, Stage3TellsOfItsHooksAroundAModule) {
  for (const int stage : {2, 3}) {
    Session s;
    HookCounter counter;
    s.observe(counter);
    const auto module = layer(s);
    ProcessGroups groups(2, 0);
    const DeepSpeedSettings settings = bf16_stage(stage);
    deepspeed::Engine engine(s, groups,
                             deepspeed::Engine::Request{.model = *module, .settings = settings});
    engine.backward(
        sum(s, engine.forward({empty(s, {2, 6}, {.dtype = settings.precision})}).front()));
    const std::vector<std::string> all{"fetch_sub_module", "release_sub_module",
                                       "fetch_sub_module"};
    EXPECT_EQ(counter.names, stage == 3 ? all : std::vector<std::string>{});
  }
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

// torch.nn.Module.half() and bfloat16() cast what is floating point.
TEST(DeepSpeedRuntime, LeavesPackedIntegersAsTheyAre) {
  Session s;
  const auto module = layer(s);
  const Tensor packed = empty(s, {3, 6}, {.dtype = Dtype::int32, .device = Device::cuda});
  module->parameters.push_back({.name = "qweight", .tensor = packed});
  ProcessGroups groups(2, 0);
  const DeepSpeedSettings settings = bf16_stage(2);
  const deepspeed::Engine engine(
      s, groups, deepspeed::Engine::Request{.model = *module, .settings = settings});
  EXPECT_EQ(module->parameter("qweight").dtype(), Dtype::int32);
  EXPECT_EQ(module->parameter("weight").dtype(), Dtype::bfloat16);
}

/// Asynchronous collectives, and those of them that a stream waited for.
struct Works : Observer {
  std::vector<std::uint32_t> issued, waited;
  void on_collective(Session&, const CollectiveCall& call) override {
    if (call.work) issued.push_back(call.work.value);
  }
  void on_work_wait(Session&, WorkId work, StreamId) override { waited.push_back(work.value); }
};

/// Set-up and one step of two layers, a weight of 4 x 6 and one of 3, under stage 3.
Schedule recorded_stage_3(int world, Works* works = nullptr) {
  DeepSpeedSettings settings = bf16_stage(3);
  settings.param_persistence_elements = 0;
  ScheduleRecorder recorder;
  Session s;
  s.observe(recorder);
  if (works != nullptr) s.observe(*works);
  const std::shared_ptr<EagerModule> module = layer(s);
  const Tensor scale = empty(s, {3}, {.dtype = Dtype::float32, .device = Device::cuda});
  scale.set_requires_grad(true);
  module->parameters.push_back({.name = "scale", .tensor = scale});
  module->forward = [](Session& session, EagerModule& self, const Arguments& arguments) -> Tensors {
    const Tensor rows = linear(session, arguments[0], self.parameter("weight"));
    return {mul(session, sum(session, rows), sum(session, self.parameter("scale")))};
  };
  ProcessGroups groups(world, 0);
  deepspeed::Engine engine(s, groups, {.model = *module, .settings = settings});
  recorder.begin_step("1");
  recorder.begin_phase(Phase::forward, 0);
  const Tensor loss = engine.forward({empty(s, {2, 6}, {.dtype = Dtype::bfloat16})}).front();
  recorder.begin_phase(Phase::backward, 0);
  engine.backward(loss);
  engine.step();
  return recorder.finish();
}

std::vector<std::string> shapes_of_joins(const Schedule& schedule) {
  std::vector<std::string> shapes;
  for (const Operation& op : schedule.operations)
    if (schedule.name(op) == "aten.cat.default") shapes.push_back(schedule.shapes[op.shapes]);
  return shapes;
}

// 24 elements on 5 ranks are parts of 5, the last of 4 and a filling of 1; 3 elements are parts of
// 1, and two ranks have none and a filling of 1. Gathered, both are joined from the ranks' parts,
// in the forward and in the backward.
TEST(DeepSpeedRuntime, Stage3JoinsThePartsOfAllRanks) {
  EXPECT_THAT(shapes_of_joins(recorded_stage_3(5)),
              testing::IsSupersetOf({"5 5 5 5 4", "1 1 1", "5 1 5 1 5 1 5 0 1 4 1 0 1"}));
}

// What the host does for each rank is one row for all of them.
TEST(DeepSpeedRuntime, Stage3CostsAsMuchForManyRanksAsForFew) {
  const Schedule few = recorded_stage_3(64), many = recorded_stage_3(65'536);
  EXPECT_EQ(many.program.actions.size(), few.program.actions.size());
  EXPECT_EQ(many.buffers.size(), few.buffers.size());
  EXPECT_EQ(many.operands.size(), few.operands.size());
}

// AllGatherCoalescedHandle.wait: torch's Work.wait of the gather comes before the parts are joined.
// Forward and backward gather both parameters at once.
TEST(DeepSpeedRuntime, Stage3WaitsForWhatItGathers) {
  Works works;
  recorded_stage_3(2, &works);
  EXPECT_EQ(works.issued.size(), 2U);
  EXPECT_THAT(works.waited, testing::ElementsAreArray(works.issued));
}

}  // namespace
}  // namespace shardscope::eager
