// What rows of published runs say in words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/validate/published_machine.h"
#include "sim/validate/published_pipeline.h"
#include "sim/validate/published_scripts.h"
#include "sim/validate/published_stack.h"
#include "sim/validate/published_words.h"

namespace shardscope::testing {
namespace {

double gigabits(const std::optional<StatedNetwork>& network) {
  return network ? network->rate.bytes_per_s * 8e-9 : 0;
}

TEST(PublishedNetwork, IsThatOfAllAdaptersOfANode) {
  EXPECT_DOUBLE_EQ(gigabits(stated_network("1600 Gbps node-node interconnect (RoCE)", "A100", 8)),
                   1600);
  const auto four = stated_network("4x100Gb RoCE per node; x", "A100", 8);
  EXPECT_DOUBLE_EQ(gigabits(four), 400);
  EXPECT_EQ(four.value().adapters, 4);
  EXPECT_EQ(four.value().kind, NetworkKind::roce);
  EXPECT_DOUBLE_EQ(
      gigabits(stated_network("2.4TB/s HBM2e, 400Gb/s RDMA per GPU, 500 W", "H100", 8)), 3200);
  EXPECT_DOUBLE_EQ(gigabits(stated_network("800 Gb/s inter-node taken from", "A100", 8)), 800);
  EXPECT_DOUBLE_EQ(gigabits(stated_network("2x40.5Gb/s a node", "A100", 8)), 81);
  EXPECT_DOUBLE_EQ(gigabits(stated_network("table 2. 400 Gb/s a node", "A100", 8)), 400);
}

TEST(PublishedNetwork, IsThatOfTheGpuInBrackets) {
  constexpr std::string_view notes = "400 Gb/s (A100) / 800 Gb/s (H100) inter-node; seq 4096";
  EXPECT_DOUBLE_EQ(gigabits(stated_network(notes, "A100-80GB-SXM", 8)), 400);
  EXPECT_DOUBLE_EQ(gigabits(stated_network(notes, "H100-80GB-SXM", 8)), 800);
}

TEST(PublishedNetwork, IsNotEveryNumberThatIsStated) {
  EXPECT_EQ(stated_network("memory 80 Gb; x", "A100", 8), std::nullopt);
  EXPECT_EQ(stated_network("", "A100", 8), std::nullopt);
}

TEST(PublishedNetwork, IsSharedByRowsOfOneSourceAndGpu) {
  std::vector<PublishedRow> rows{{.source = "a/b table 1", .gpu = "A100", .notes = "none said"},
                                 {.source = "a/b table 2", .gpu = "A100", .notes = "4x100Gb RoCE"},
                                 {.source = "a/b table 2", .gpu = "H100", .notes = ""}};
  share_networks(rows);
  EXPECT_EQ(rows[0].network_notes, "4x100Gb RoCE");
  EXPECT_EQ(rows[2].network_notes, "");
}

TEST(PublishedWords, NumbersStandBehindWholeWords) {
  EXPECT_EQ(number_after("3D TP1 DP4 PP16 1F1B", "PP"), 16);
  EXPECT_EQ(number_after("3D TP1 DP4 PP16 1F1B", "P"), std::nullopt);
  EXPECT_EQ(number_after("", "PP"), std::nullopt);
  EXPECT_TRUE(has_word("Amp_BF16", "bf16"));
}

StatedSharding sharding_of(const std::string& strategy) {
  return stated_sharding({.strategy = strategy}).value();
}

/// run_table_1.sh: of "76B" MBS=2, NLS=60 on PP=4, --num-layers-per-virtual-pipeline-stage 5; of
/// "18B" MBS=8 without a pipeline.
TEST(PublishedScripts, SayMicroBatchesAndInterleavingOfMegatronsTable) {
  PublishedRow row{.source = "NVIDIA/Megatron-LM images/cases_april2021.png @b83477a"};
  row.layers = 60;
  row.hidden = 10240;
  row.pipeline_parallel = 4;
  fill_launch_script(row);
  EXPECT_EQ(row.micro_batch, 2);
  EXPECT_EQ(stages_of_rank(row), 3);
  row = {.source = row.source};
  row.layers = 40;
  row.hidden = 6144;
  row.pipeline_parallel = 1;
  fill_launch_script(row);
  EXPECT_EQ(row.micro_batch, 8);
  EXPECT_EQ(row.virtual_stages, std::nullopt);
}

TEST(PublishedScripts, FillNothingThatARowOrNobodyStates) {
  PublishedRow row{.source = "NVIDIA/Megatron-LM images/model_table.png @d98e8a6"};
  row.layers = 60;
  row.hidden = 10240;
  fill_launch_script(row);
  EXPECT_EQ(row.micro_batch, std::nullopt);
  row.source = "NVIDIA/Megatron-LM images/cases_april2021.png";
  row.micro_batch = 4;
  fill_launch_script(row);
  EXPECT_EQ(row.micro_batch, 4);
}

TEST(PublishedScripts, LeaveTheInterleavingThatARowStatesOrThatDoesNotDivide) {
  PublishedRow row{.source = "NVIDIA/Megatron-LM images/cases_april2021.png"};
  row.layers = 60;
  row.hidden = 10240;
  row.pipeline_parallel = 4;
  row.strategy = "PP4 VP5";
  fill_launch_script(row);
  EXPECT_EQ(stages_of_rank(row), 5);
  row.strategy = "PP16";
  row.pipeline_parallel = 16;
  fill_launch_script(row);
  EXPECT_EQ(stages_of_rank(row), 1);
}

/// nemotron_22b.yaml: 40 layers of 6144 columns and 48 heads, ten virtual stages.
TEST(PublishedScripts, KnowTheShapesOfNemotron) {
  PublishedRow row{.source = "NVIDIA/NeMo-Framework-Launcher examples/README.md",
                   .model = "Nemotron-22B"};
  row.pipeline_parallel = 4;
  fill_launch_script(row);
  EXPECT_EQ(row.layers, 40);
  EXPECT_EQ(row.hidden, 6144);
  EXPECT_EQ(row.heads, 48);
  EXPECT_EQ(row.ffn, 24576);
  EXPECT_EQ(stages_of_rank(row), 10);
  EXPECT_TRUE(stack_of(row).divides_sequence);
}

TEST(PublishedStrategy, IsFoundInWords) {
  EXPECT_EQ(sharding_of("FSDP SHARD_GRAD_OP (ZeRO-2)").sharding, ShardingStrategy::shard_grad_op);
  EXPECT_EQ(sharding_of("FSDP2 full shard").sharding, ShardingStrategy::full_shard);
  EXPECT_EQ(sharding_of("DDP+dist.optimizer TP1").sharding, ShardingStrategy::zero1);
  EXPECT_EQ(sharding_of("ZeRO-1 over 8 GPUs (hybrid), TP1").group, 8);
  EXPECT_EQ(sharding_of("ZeRO-1 over all DP ranks, TP1").group, std::nullopt);
  EXPECT_EQ(sharding_of("ZeRO-1 over 0 GPUs").group, std::nullopt);
  EXPECT_EQ(stated_sharding({.strategy = "by magic"}), std::nullopt);
}

}  // namespace
}  // namespace shardscope::testing
