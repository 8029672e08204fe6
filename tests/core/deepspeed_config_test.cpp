#include "core/config/deepspeed/deepspeed_config.h"

#include <gtest/gtest.h>

#include "core/base/refusal.h"
#include "core/config/deepspeed/accelerate_prepare.h"
#include "core/config/deepspeed/batch_sizes.h"
#include "core/config/deepspeed/settings.h"
#include "core/config/deepspeed/trainer_autos.h"
#include "core/config/trainer/training_args.h"
#include "core/config/values/config_json.h"

namespace shardscope {
namespace {

std::optional<std::string> no_files(const std::string&) { return std::nullopt; }

DeepSpeedConfig effective(std::string_view json, std::int64_t world = 8) {
  return effective_deepspeed_config(read_json(json, "ds.json"), world, no_files);
}

std::string raised_by(std::string_view json) {
  try {
    effective(json);
  } catch (const Refusal& refusal) {
    return refusal.exception();
  }
  return "nothing";
}

ConfigValue zero_of(std::string_view zero) {
  return effective("{\"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": " +
                   std::string(zero) + "}")
      .values.at("zero_optimization");
}

// Defaults as recorded from deepspeed 0.19.8 (case stage_3_defaults).
TEST(DeepSpeedConfig, FillsInTheDefaultsOfStage3) {
  const ConfigValue zero = zero_of("{\"stage\": 3}");
  EXPECT_EQ(zero.at("reduce_bucket_size").integer(), 500'000'000);
  EXPECT_EQ(zero.at("stage3_prefetch_bucket_size").integer(), 50'000'000);
  EXPECT_EQ(zero.at("stage3_param_persistence_threshold").integer(), 100'000);
  EXPECT_TRUE(zero.at("overlap_comm").boolean());  // only in stage 3
  EXPECT_FALSE(zero_of("{\"stage\": 2}").at("overlap_comm").boolean());
}

TEST(DeepSpeedConfig, ClipsAtOneByDefault) {
  EXPECT_EQ(effective("{\"train_batch_size\": 8}").values.at("gradient_clipping").number(), 1.0);
}

TEST(DeepSpeedConfig, NamesTheKeyThatDividesAModel) {
  const auto key_of = [](std::string_view more) {
    return effective("{\"train_micro_batch_size_per_gpu\": 1" + std::string(more) + "}")
        .dividing_key;
  };
  EXPECT_EQ(key_of(""), "");
  EXPECT_EQ(key_of(R"(, "sequence_parallel_size": 1)"), "");
  EXPECT_EQ(key_of(R"(, "sequence_parallel_size": 4)"), "sequence_parallel_size");
  EXPECT_EQ(key_of(R"(, "tensor_parallel": {"autotp_size": 2})"), "tensor_parallel.autotp_size");
  EXPECT_EQ(key_of(R"(, "expert_parallel": {"autoep_size": 2})"), "");
  EXPECT_EQ(key_of(R"(, "expert_parallel": {"enabled": true, "autoep_size": 2})"),
            "expert_parallel.autoep_size");
}

TEST(DeepSpeedConfig, DropsAutoInsideSections) {
  EXPECT_EQ(zero_of("{\"stage\": 3, \"reduce_bucket_size\": \"auto\"}")
                .at("reduce_bucket_size")
                .integer(),
            500'000'000);
}

// pydantic's lax mode: "5.0" is 5, "5e8" is refused.
TEST(DeepSpeedConfig, TakesNumbersInTextAsPydanticDoes) {
  EXPECT_EQ(zero_of("{\"reduce_bucket_size\": \"5_000.0\"}").at("reduce_bucket_size").integer(),
            5000);
  EXPECT_EQ(zero_of("{\"stage\": \"3\"}").at("stage").integer(), 3);
  EXPECT_EQ(raised_by("{\"train_batch_size\": 8, \"zero_optimization\": {\"reduce_bucket_size\": "
                      "\"5e8\"}}"),
            "ValidationError");
}

TEST(DeepSpeedConfig, MovesDeprecatedKeys) {
  const ConfigValue zero = zero_of("{\"stage\": 2, \"cpu_offload\": true}");
  EXPECT_FALSE(zero.has("cpu_offload"));
  EXPECT_TRUE(zero.at("offload_optimizer").at("device").is("cpu"));
  EXPECT_EQ(raised_by("{\"train_batch_size\": 8, \"zero_optimization\": {\"cpu_offload\": true, "
                      "\"offload_optimizer\": {\"device\": \"cpu\"}}}"),
            "AssertionError");
}

TEST(DeepSpeedConfig, RefusesByName) {
  EXPECT_EQ(raised_by("{\"train_batch_size\": 8, \"zero_optimization\": {\"mics_shard_size\": 4}}"),
            "DeepSpeedConfigError");
  EXPECT_EQ(raised_by("{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 4}}"),
            "ValidationError");
  EXPECT_EQ(raised_by("{\"train_batch_size\": 8, \"fp16\": {\"enabled\": true}, \"bf16\": "
                      "{\"enabled\": true}}"),
            "AssertionError");
  EXPECT_EQ(raised_by("{\"train_batch_size\": \"auto\", \"gradient_accumulation_steps\": 1}"),
            "TypeError");
}

// 64 samples over 8 ranks in 2 steps are 4 a step and rank: 64 // 8 // 2.
TEST(DeepSpeedBatch, CompletesTheThird) {
  const DeepSpeedBatch batch =
      completed_batch({.train = 64, .micro = {}, .accumulation = 2}, ConfigValue(8));
  EXPECT_EQ(batch.micro, ConfigValue(4));
  EXPECT_EQ(completed_batch({.train = {}, .micro = 3, .accumulation = {}}, ConfigValue(8)).train,
            ConfigValue(24));
}

// 63 // 2 // 8 = 3 steps, and 2 * 3 * 8 = 48.
TEST(DeepSpeedBatch, RefusesAProductThatDoesNotHold) {
  EXPECT_THROW(completed_batch({.train = 63, .micro = 2, .accumulation = {}}, ConfigValue(8)),
               Refusal);
}

TEST(DeepSpeedSettings, HoldsElementsDevicesAndPrecision) {
  const DeepSpeedSettings settings = settings_of(effective(R"({
    "train_batch_size": 32, "gradient_accumulation_steps": 2, "bf16": {"enabled": true},
    "communication_data_type": "fp32",
    "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 1e7,
      "zero_hpz_partition_size": 4, "offload_param": {"device": "nvme", "nvme_path": "/nvme/"}}})"));
  EXPECT_EQ(settings.stage, 3);
  EXPECT_EQ(settings.prefetch_bucket_elements, 10'000'000);
  EXPECT_EQ(settings.hpz_partition_size, 4);
  EXPECT_EQ(settings.offload_param.device, OffloadDevice::nvme);
  EXPECT_EQ(settings.offload_param.nvme_path, "/nvme");
  EXPECT_EQ(settings.precision, Dtype::bfloat16);
  EXPECT_EQ(settings.communication_dtype, Dtype::float32);
  EXPECT_EQ(settings.micro_batch_size, 2);  // 32 / 8 ranks / 2 steps
}

TEST(DeepSpeedSettings, RefusesAutoThatNobodyFilledIn) {
  EXPECT_THROW(settings_of(effective("{\"train_batch_size\": 8, \"gradient_clipping\": \"auto\"}")),
               Error);
}

// Hidden size 64: 64 * 64, int(0.9 * 64 * 64) = 3686 and 10 * 64 (recorded, all_auto_stage3).
TEST(TrainerAutos, FillsStage3KeysOnlyInStage3) {
  const ConfigValue arguments =
      make_training_arguments(ConfigValue::dict(), {}, no_files).with_defaults();
  ModelWidths model;
  model.hidden_size = 64;
  for (const std::int64_t stage : {2, 3}) {
    ConfigValue config = read_json(
        "{\"train_batch_size\": \"auto\", \"zero_optimization\": {\"reduce_bucket_size\": "
        "\"auto\", "
        "\"stage3_prefetch_bucket_size\": \"auto\"}}",
        "ds.json");
    config.find("zero_optimization")->set("stage", stage);
    TrainerDeepSpeedConfig trainer = processed_by_trainer(HfDeepSpeedConfig(config), arguments, 4);
    finalize_by_trainer(trainer, arguments, model, 100);
    const ConfigValue zero = trainer.hf.config().at("zero_optimization");
    EXPECT_EQ(trainer.hf.config().at("train_batch_size"), ConfigValue(32));  // 4 ranks of 8
    EXPECT_EQ(zero.at("reduce_bucket_size"), ConfigValue(4096));
    EXPECT_EQ(zero.at("stage3_prefetch_bucket_size"),
              stage == 3 ? ConfigValue(3686) : ConfigValue("auto"));
  }
}

TEST(TrainerAutos, RefusesWhatContradictsTheArguments) {
  const ConfigValue arguments =
      make_training_arguments(ConfigValue::dict(), {}, no_files).with_defaults();
  TrainerDeepSpeedConfig trainer = processed_by_trainer(
      HfDeepSpeedConfig(read_json("{\"gradient_clipping\": 0.5}", "ds.json")), arguments, 1);
  ASSERT_EQ(trainer.mismatches.size(), 1u);
  EXPECT_EQ(trainer.mismatches[0], "- ds gradient_clipping=0.5 vs hf max_grad_norm=1.0");
  EXPECT_THROW(finalize_by_trainer(trainer, arguments, {}, 100), Refusal);
}

TEST(AccelerateDeepSpeed, FillsBatchFromTheLoader) {
  const DeepSpeedPlugin plugin = make_deepspeed_plugin(
      ConfigValue::dict(), {{"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "2"}}, no_files);
  EXPECT_EQ(plugin.zero_stage, ConfigValue(2));
  const PreparedDeepSpeed prepared =
      prepare_deepspeed(plugin, {{"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "2"}},
                        {.world = 4, .loader_batch_sizes = {3}});
  EXPECT_EQ(prepared.config.at("train_batch_size"), ConfigValue(24));  // 3 * 2 * 4
  EXPECT_EQ(prepared.config.at("gradient_clipping"), ConfigValue(1.0));
}

TEST(AccelerateDeepSpeed, RefusesAutoThatItCannotFill) {
  const DeepSpeedPlugin plugin = make_deepspeed_plugin(
      ConfigValue::dict(
          {{"hf_ds_config", read_json("{\"train_micro_batch_size_per_gpu\": 2, "
                                      "\"zero_optimization\": {\"overlap_comm\": \"auto\"}}",
                                      "ds.json")}}),
      {}, no_files);
  EXPECT_THROW(prepare_deepspeed(plugin, {}, {.world = 4}), Refusal);
}

}  // namespace
}  // namespace shardscope
