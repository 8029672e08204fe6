// Training steps of TRL's trainers beside what TRL itself asked PyTorch's caching allocator for
// (tests/data/trl/README.md says how that was recorded).
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
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

std::vector<Case> cases() { return recorded_steps(SOURCE_ROOT "/tests/data/trl/steps.json"); }

std::vector<std::string> blocks_of(const Model& model) {
  std::vector<std::string> names;
  for (const Module& module : model.modules)
    if (module.class_name.ends_with("DecoderLayer")) names.push_back(module.name);
  return names;
}

eager::Objective objective_of(const std::string& trainer) {
  return trainer == "sft"    ? eager::Objective::supervised
         : trainer == "grpo" ? eager::Objective::policy
                             : eager::Objective::preference;
}

/// What record.py of tests/data/trl is told, for one case.
class Step {
 public:
  explicit Step(const Case& recorded)
      : case_(recorded),
        trainer_(recorded.json.at("trainer").string()),
        dtype_(parse_dtype(recorded.json.at("dtype").string(), "dtype")),
        config_(recorded.json.at("config")),
        model_(with_dtype(model_of_config(config_), dtype_)) {
    const eager::ModelSettings settings = eager::usual_settings(model_);
    std::optional<eager::FineTuningSetup> tuning;
    if (case_.flag("lora")) tuning = fine_tuning();
    if (tuning) model_ = eager::fine_tuned_model({config_, settings, *tuning});
    setup_ = eager::requested_setup(
        model_, {.runtime = Runtime::ddp,
                 .sharding = ShardingStrategy::no_shard,
                 .precision = dtype_ == Dtype::float32 ? TrainingPrecision::bf16_mixed
                                                       : TrainingPrecision::bf16,
                 .world = 1,
                 .ranks_per_node = 1});
    setup_.runtime = eager::PlainSetup{};
    setup_.trainable_dtype.reset();
    setup_.loop.autocast.reset();
    setup_.model = settings;
    setup_.forward_autocast.reset();
    if (case_.flag("bf16")) setup_.forward_autocast = Dtype::bfloat16;
    set_loop();
    if (!tuning && case_.flag("checkpointing"))
      setup_.checkpointing = eager::checkpointing_of(model_, {.every = 1});
    if (!tuning) tuning.emplace().base = std::make_shared<const Model>(model_);
    tuning->automatic_map = trainer_ != "dpo_logits";
    eager::set_fine_tuning(*tuning, setup_);
  }

  const eager::TrainingSetup& setup() const { return setup_; }
  const Model& model() const { return model_; }
  const JsonValue& config() const { return config_; }

 private:
  bool prefers() const { return objective_of(trainer_) == eager::Objective::preference; }

  eager::FineTuningSetup fine_tuning() const {
    eager::FineTuningSetup tuning;
    tuning.base = std::make_shared<const Model>(model_);
    tuning.adapter = LoraConfig{.rank = case_.json.at("rank").integer(),
                                .dropout = prefers() ? 0 : 0.05,
                                .all_linear = true};
    tuning.adapter->dora = case_.optional_flag("dora");
    if (case_.flag("four_bits")) {
      tuning.quantization = Quantization{.compute_dtype = dtype_};
      tuning.trainable_dtype = Dtype::bfloat16;
      tuning.keeps_magnitudes = true;
    }
    tuning.input_gradients = case_.flag("checkpointing");
    if (case_.flag("checkpointing")) tuning.checkpointed_layers = blocks_of(model_);
    return tuning;
  }

  eager::ReferencePolicy reference() const {
    const bool compares =
        prefers() ? !case_.flag("precompute") : case_.json.at("beta_percent").integer() > 0;
    if (trainer_ == "sft" || !compares) return eager::ReferencePolicy::none;
    return case_.flag("lora") ? eager::ReferencePolicy::without_adapter
                              : eager::ReferencePolicy::copy;
  }

  void set_loop() {
    setup_.session.attention.cudnn = true;
    eager::TrainingSettings& loop = setup_.loop;
    loop.batch = case_.json.at("batch").integer();
    loop.length = case_.json.at("length").integer();
    loop.flattens = setup_.model.packed = case_.optional_flag("packing");
    loop.prompt = trainer_ == "sft" ? 0 : case_.json.at("prompt").integer();
    loop.micro_batches = static_cast<int>(case_.json.at("micro_batches").integer());
    loop.clips = true;
    loop.divides_in_backward = prefers();
    loop.objective = objective_of(trainer_);
    loop.reference = reference();
    loop.optimizer.rule = eager::OptimizerRule::adamw;
    loop.optimizer.implementation = eager::OptimizerImplementation::fused;
    if (trainer_ == "dpo_logits")
      loop.loss = eager::LossPlace::after_model;
    else
      setup_.model.loss = eager::LanguageLoss::tiled;
    setup_.model.tiled = {.entropy = true,
                          .mean_logits = trainer_ == "dpo",
                          .top1 = trainer_ != "grpo",
                          .prompt = loop.prompt};
  }

  const Case& case_;
  std::string trainer_;
  Dtype dtype_;
  JsonValue config_;
  Model model_;
  eager::TrainingSetup setup_;
};

/// Highest figures of allocated memory by moment, of the second step: "0.forward", "1.backward".
std::map<std::string, std::int64_t> peaks_of(const Case& recorded) {
  const Step step(recorded);
  constexpr int capability = 90;
  constexpr std::int64_t memory = std::int64_t{80} << 30;
  planner::MemoryPlay play({.session = step.setup().session,
                            .device = eager::kernel_device(capability),
                            .allocator = {},
                            .memory = Bytes{memory}});
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
    if (moment == eager::Moment::zero_grad) note("step");
  };
  for (int i = 0; i < 2; ++i) run.loop().iteration(probe);
  return peaks;
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) { return info.param.name(); }

class TrlMemory : public testing::TestWithParam<Case> {};

TEST_P(TrlMemory, IsWhatTrlTook) {
  const auto peaks = peaks_of(GetParam());
  constexpr double most = 0.001;
  for (const auto& [moment, recorded] : GetParam().json.at("peaks").members()) {
    const auto expected = static_cast<double>(recorded.integer());
    EXPECT_NEAR(static_cast<double>(peaks.at(moment)), expected, most * expected)
        << moment << ": " << peaks.at(moment) - recorded.integer() << " bytes";
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, TrlMemory, testing::ValuesIn(cases()), name_of_case);

void PrintTo(const Case& recorded, std::ostream* out) { *out << recorded.name(); }

}  // namespace
}  // namespace shardscope
