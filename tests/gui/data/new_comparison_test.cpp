#include "gui/data/new_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/gui/run_samples.h"

namespace shardscope::gui {
namespace {

using shardscope::testing::ScratchFolder;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::filesystem::path write(const ScratchFolder& folder, const std::string& name,
                            const std::string& text) {
  std::ofstream(folder / name) << text;
  return folder / name;
}

TEST(NewComparison, IsWhatAConfigurationOrAModelOpensAs) {
  const ScratchFolder folder;
  const auto yaml = write(folder, "fsdp.yaml", "distributed_type: FSDP\nnum_processes: 4\n");
  const auto comparison = comparison_of(yaml);
  ASSERT_TRUE(comparison && comparison->config);
  EXPECT_EQ(comparison->config->kind, ConfigKind::accelerate);
  EXPECT_TRUE(comparison->model.empty());
  const auto deepspeed = write(folder, "ds.json", R"({"zero_optimization": {"stage": 2}})");
  EXPECT_EQ(comparison_of(deepspeed)->config->kind, ConfigKind::deepspeed);
  // Beside a model, it is of that model.
  const auto model = write(folder, "config.json", R"({"model_type": "gpt2"})");
  EXPECT_EQ(comparison_of(model)->model, folder.path());
  EXPECT_FALSE(comparison_of(model)->config);
  EXPECT_EQ(comparison_of(yaml)->model, folder.path());
}

TEST(NewComparison, OtherFilesAreNone) {
  const ScratchFolder folder;
  EXPECT_FALSE(comparison_of(write(folder, "trace.json", R"({"traceEvents": []})")));
  EXPECT_FALSE(comparison_of(write(folder, "notes.txt", "distributed_type: FSDP\n")));
  EXPECT_FALSE(comparison_of(write(folder, "broken.yaml", "a: [")));
  EXPECT_FALSE(comparison_of(folder / "nowhere.yaml"));
  const std::string large(300 * 1024, ' ');
  EXPECT_FALSE(comparison_of(write(folder, "large.yaml", "distributed_type: FSDP\n" + large)));
}

TEST(NewComparison, SaysWhatIsMissingUntilNothingIs) {
  const ScratchFolder folder;
  NewComparison comparison;
  EXPECT_EQ(what_is_missing(comparison),
            "Choose a model: a folder of Hugging Face, or its config.json.");
  comparison.model = folder / "gpt2";
  EXPECT_EQ(what_is_missing(comparison),
            "There is no model at " + (folder / "gpt2").string() + ".");
  comparison.model = folder.path();
  EXPECT_EQ(what_is_missing(comparison), "Choose at least one strategy.");
  comparison.strategies = {{"ddp", "no_shard"}};
  EXPECT_EQ(what_is_missing(comparison), "");
  comparison.cluster = "";
  EXPECT_EQ(what_is_missing(comparison), "Choose a cluster.");
}

TEST(NewComparison, HasAFolderThatNobodyElseHas) {
  const ScratchFolder folder;
  EXPECT_EQ(make_new_folder(folder / "a/now"), folder / "a/now");
  EXPECT_EQ(make_new_folder(folder / "a/now"), folder / "a/now_2");
  EXPECT_EQ(make_new_folder(folder / "a/now"), folder / "a/now_3");
}

TEST(NewComparison, IsASimulationForEachStrategy) {
  NewComparison comparison{.model = "m", .world = 16, .batch = 2, .seq = 4096, .folder = "out"};
  comparison.strategies = {{"ddp", "no_shard"}, {"fsdp2", "full_shard"}};
  const auto simulations = simulations_of(comparison);
  ASSERT_EQ(simulations.size(), 2u);
  EXPECT_THAT(simulations[1],
              ElementsAre("simulate", "--model", "m", "--cluster", "h100_sxm", "--seq", "4096",
                          "--batch", "2", "--quiet", "-o", "out/2", "--world", "16", "--precision",
                          "bf16_mixed", "--runtime", "fsdp2", "--strategy", "full_shard"));
}

TEST(NewComparison, AFileOfAccelerateSaysItsRanks) {
  const ScratchFolder folder;
  const auto yaml = write(folder, "a.yaml", "distributed_type: FSDP\nnum_processes: 4\n");
  NewComparison comparison = *comparison_of(yaml);
  auto simulation = simulations_of(comparison).at(0);
  EXPECT_THAT(simulation, IsSupersetOf({std::string("--accelerate"), yaml.string()}));
  EXPECT_THAT(simulation, Not(Contains("--world")));
  comparison.config->kind = ConfigKind::axolotl;
  simulation = simulations_of(comparison).at(0);
  EXPECT_THAT(simulation, IsSupersetOf({"--config", "--world"}));
}

}  // namespace
}  // namespace shardscope::gui
