// Training steps of litgpt's GPT beside what litgpt itself asked PyTorch's caching allocator for
// (tests/data/litgpt/README.md says how that was recorded).
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/format/json_reader.h"
#include "core/model/huggingface.h"
#include "core/pytorch/engine/kernel_scratch.h"
#include "core/pytorch/runtimes/training/requested_setup.h"
#include "sim/planner/memory_play.h"
#include "tests/sim/recorded_steps.h"

namespace shardscope {
namespace {

using Case = RecordedStep;

std::vector<Case> cases() { return recorded_steps(SOURCE_ROOT "/tests/data/litgpt/steps.json"); }

bool flag(const JsonValue& json, std::string_view key) {
  const auto value = json.find(key);
  return value && value->boolean();
}

eager::LitgptLora lora_of(const JsonValue& json) {
  return {.rank = json.at("lora_r").integer(),
          .dropout = json.at("lora_dropout").number(),
          .query = flag(json, "lora_query"),
          .key = flag(json, "lora_key"),
          .value = flag(json, "lora_value"),
          .projection = flag(json, "lora_projection"),
          .mlp = flag(json, "lora_mlp"),
          .head = flag(json, "lora_head")};
}

/// What record.py of tests/data/litgpt is told, for one case.
class Step {
 public:
  explicit Step(const Case& recorded)
      : config_(recorded.json.at("model")), base_(model_of_config(config_)), model_(base_) {
    constexpr std::int64_t chunk = 128;
    const auto lora = recorded.json.find("lora");
    eager::ModelSettings settings = eager::usual_settings(base_);
    if (lora) settings.logit_chunk_tokens = chunk;
    eager::FineTuningSetup tuning;
    if (lora) {
      tuning.base = std::make_shared<const Model>(base_);
      tuning.litgpt_lora = lora_of(*lora);
      model_ = eager::fine_tuned_model({config_, settings, tuning});
    }
    setup_ = eager::requested_setup(model_, {.runtime = Runtime::ddp,
                                             .sharding = ShardingStrategy::no_shard,
                                             .precision = TrainingPrecision::bf16,
                                             .world = 1,
                                             .ranks_per_node = 1});
    setup_.runtime = eager::PlainSetup{};
    setup_.session.attention.cudnn = false;
    setup_.model = settings;
    eager::TrainingSettings& loop = setup_.loop;
    loop.batch = recorded.json.at("B").integer();
    loop.length = recorded.json.at("T").integer();
    loop.micro_batches = static_cast<int>(recorded.json.at("micro").integer());
    loop.loss = eager::LossPlace::after_model;
    loop.loss_chunk_tokens = chunk;
    loop.divides_in_backward = true;
    loop.holds_logits = true;
    loop.optimizer.rule = eager::OptimizerRule::adamw;
    if (lora) eager::set_fine_tuning(tuning, setup_);
  }

  const eager::TrainingSetup& setup() const { return setup_; }
  const Model& model() const { return model_; }
  const JsonValue& config() const { return config_; }

 private:
  JsonValue config_;
  Model base_, model_;
  eager::TrainingSetup setup_;
};

/// Highest figures of allocated memory by moment, of the third step: "0.forward", "1.backward",
/// "step".
std::map<std::string, std::int64_t> peaks_of(const Case& recorded) {
  const Step step(recorded);
  planner::MemoryPlay play({.session = step.setup().session,
                            .device = eager::kernel_device(step.setup().session.compute_capability),
                            .allocator = {},
                            .memory = Bytes{std::int64_t{40} << 30}});
  play.begin();
  eager::TrainingRun run(play.session(), step.model(), step.config(), step.setup());
  std::map<std::string, std::int64_t> peaks;
  const auto probe = [&](eager::Moment moment, int number) {
    play.catch_up();
    const auto note = [&](const std::string& name) {
      peaks[name] = play.allocator().statistics().allocated_bytes.peak;
      play.allocator().reset_peaks();
    };
    if (moment == eager::Moment::loss) note(std::to_string(number) + ".forward");
    if (moment == eager::Moment::backward) note(std::to_string(number) + ".backward");
    if (moment == eager::Moment::step) note("step");
    if (moment == eager::Moment::zero_grad) play.allocator().reset_peaks();
  };
  for (int i = 0; i < 3; ++i) run.loop().iteration(probe);
  return peaks;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) { return info.param.name(); }

/// By how much a figure may differ. Phi's are equal to the byte, and so are AdamW's steps of
/// adapters and forwards of multi-head attention. Open: 0.2 to 0.4 MB too much in its backward, in
/// what groups queries, and in the whole model (at most 0.055%); 2.1 MB too little in AdamW's step
/// of the whole model (0.174%).
std::int64_t allowed(const std::string& name, const std::string& moment, std::int64_t expected) {
  constexpr std::int64_t of_whole_step = 570, of_others = 1800;
  const bool forward = moment.ends_with("forward"), step = moment == "step";
  if (name == "full") return expected / (step ? of_whole_step : of_others);
  if (name == "phi" || step || (name == "mha" && forward)) return 0;
  return expected / of_others;
}

class LitgptMemory : public testing::TestWithParam<Case> {};

TEST_P(LitgptMemory, IsAsRecorded) {
  const std::map<std::string, std::int64_t> played = peaks_of(GetParam());
  const JsonValue& recorded = GetParam().json.at("peaks");
  for (const auto& [moment, bytes] : played) {
    const std::int64_t expected = recorded.at(moment).integer();
    EXPECT_LE(std::abs(bytes - expected), allowed(GetParam().name(), moment, expected))
        << moment << ": " << bytes << ", recorded " << expected;
  }
  EXPECT_EQ(played.size(), 2 * GetParam().json.at("micro").integer() + 1);
}

INSTANTIATE_TEST_SUITE_P(Recorded, LitgptMemory, testing::ValuesIn(cases()), name_of_case);

}  // namespace
}  // namespace shardscope
