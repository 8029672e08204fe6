#include "sim/collectives/collective_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"

namespace shardscope {
namespace {

using ::testing::HasSubstr;

/// 100 GB/s, no samples.
HardwareProfile data_sheet() {
  return {.name = "test", .device = "cuda", .peak = {1e12}, .memory_bandwidth = {100e9}};
}

/// 8 H100 in a node, 8 adapters of 400 Gbit/s.
HardwareProfile cluster() {
  HardwareProfile profile = data_sheet();
  profile.compute_capability = 90;
  profile.node = Node{.gpus = 8, .fabric = Fabric::nvswitch, .nvlinks = 18, .pcie_generation = 5};
  profile.interconnect = Interconnect{.adapters = 8, .rate = {50e9}};
  profile.ranks_per_node = 8;
  return profile;
}

CollectiveCost cost_of(const HardwareProfile& profile, OperationKind kind, Bytes payload,
                       const Ranks& ranks) {
  return CollectiveModel(profile).cost(kind, payload, ranks);
}

Duration time_of(const HardwareProfile& profile, OperationKind kind, Bytes payload,
                 const Ranks& ranks) {
  return cost_of(profile, kind, payload, ranks).time;
}

TEST(CollectiveModel, ComesFromSamplesOfTheSameRanks) {
  HardwareProfile profile = data_sheet();
  profile.collectives = {{OperationKind::all_gather, 2, 1_MB, 100_us},
                         {OperationKind::all_gather, 4, 1_MB, 300_us}};
  EXPECT_EQ(time_of(profile, OperationKind::all_gather, 1_MB, Ranks::up_to(2)), 100_us);
  EXPECT_EQ(time_of(profile, OperationKind::all_gather, 1_MB, Ranks::up_to(4)), 300_us);
}

TEST(CollectiveModel, ScalesTheNearestRanksByTheForeignShare) {
  // 2 ranks take half of the payload from others, 8 take 7/8: 100 us x (7/8) / (1/2) = 175 us.
  HardwareProfile profile = data_sheet();
  profile.collectives = {{OperationKind::all_gather, 2, 1_MB, 100_us}};
  EXPECT_EQ(time_of(profile, OperationKind::all_gather, 1_MB, Ranks::up_to(8)), 175_us);
}

TEST(CollectiveModel, FallsBackOnTheLink) {
  // 3 hops x 2 us + 3/4 x 8 MB / 100 GB/s = 6 + 60 us.
  HardwareProfile profile = data_sheet();
  profile.link = Link{.bandwidth = {100e9}, .latency = 2_us};
  EXPECT_EQ(time_of(profile, OperationKind::all_gather, 8_MB, Ranks::up_to(4)), 66_us);
}

TEST(CollectiveModel, WithoutAnyFigureIsAnError) {
  const HardwareProfile profile = data_sheet();
  EXPECT_THROW(time_of(profile, OperationKind::all_gather, 1_MB, Ranks::up_to(4)), Error);
}

TEST(CollectiveModel, AcrossNodesNeedsANetwork) {
  HardwareProfile profile = data_sheet();
  profile.link = Link{.bandwidth = {100e9}, .latency = 2_us};
  profile.ranks_per_node = 2;
  EXPECT_THROW(time_of(profile, OperationKind::all_gather, 1_MB, Ranks::up_to(4)), Error);
  EXPECT_NO_THROW(time_of(profile, OperationKind::all_gather, 1_MB, Ranks::up_to(2)));
}

TEST(CollectiveModel, InAGroupOfOneIsNothing) {
  const HardwareProfile profile = data_sheet();
  EXPECT_EQ(time_of(profile, OperationKind::all_reduce, 1_MB, Ranks::up_to(1)), 0_ns);
}

TEST(CollectiveModel, ManyRanksOfAHostShareItsMemory) {
  // Measured on 2 ranks: 1 GB in 0.1 s. 8 ranks would need 0.1 x (7/8) / (1/2) = 0.175 s by
  // themselves, but read and write 2 x 7 GB together through 2 x 20 GB/s: 0.35 s.
  HardwareProfile profile = data_sheet();
  profile.device = "cpu";
  profile.ranks = 2;
  profile.memory_bandwidth = {20e9};
  profile.collectives = {{OperationKind::all_gather, 2, 1_GB, 100_ms}};
  EXPECT_EQ(time_of(profile, OperationKind::all_gather, 1_GB, Ranks::up_to(8)), 350_ms);
  EXPECT_EQ(time_of(profile, OperationKind::all_gather, 1_GB, Ranks::up_to(2)), 100_ms);
  // Faster memory does not help beyond what one rank does.
  profile.memory_bandwidth = {80e9};
  EXPECT_EQ(time_of(profile, OperationKind::all_gather, 1_GB, Ranks::up_to(8)), 175_ms);
}

TEST(CollectiveModel, SamplesOfOneHostDoNotSpeakOfTheNetwork) {
  // 4 ranks on 2 nodes: 1 hop of 50 us and 2 of the link's 1 us, 3/4 x 1 GB at 1 GB/s.
  HardwareProfile profile = data_sheet();
  profile.collectives = {{OperationKind::all_gather, 2, 1_GB, 100_ms}};
  profile.ranks_per_node = 2;
  profile.link = Link{.bandwidth = {10e9}, .latency = 1_us};
  profile.network = Link{.bandwidth = {1e9}, .latency = 50_us};
  EXPECT_EQ(time_of(profile, OperationKind::all_gather, 1_GB, Ranks::up_to(4)), 750_ms + 52_us);
}

TEST(CollectiveModel, AClusterSaysWhatNcclPicks) {
  // 32.2 us + 256 MB / 411.43 GB/s; busy: 256 x 7/8 MB in 654.4 us over 370.8 GB/s.
  const CollectiveCost cost =
      cost_of(cluster(), OperationKind::all_gather, 256_MB, Ranks::up_to(8));
  EXPECT_EQ(cost.algorithm, "RING");
  EXPECT_EQ(cost.protocol, "SIMPLE");
  EXPECT_EQ(cost.channels, 24);
  EXPECT_EQ(cost.time, 654422_ns);
  EXPECT_NEAR(cost.use.within, 0.9231, 1e-4);
  EXPECT_EQ(cost.use.across, 0);
}

TEST(CollectiveModel, WhatWasMeasuredHidesTheModel) {
  HardwareProfile profile = cluster();
  profile.collectives = {{OperationKind::all_gather, 8, 256_MB, 700_us}};
  EXPECT_EQ(time_of(profile, OperationKind::all_gather, 256_MB, Ranks::up_to(8)), 700_us);
  EXPECT_NE(time_of(profile, OperationKind::all_gather, 256_MB, Ranks::up_to(4)), 700_us);
  EXPECT_GT(time_of(profile, OperationKind::all_gather, 256_MB, Ranks::spaced(0, 8, 8)), 1_ms);
}

/// Below the smallest sample NCCL's model speaks, which must not say more than that sample.
TEST(CollectiveModel, FewerBytesThanWereMeasuredCostWhatTheModelSays) {
  HardwareProfile profile = cluster();
  const Ranks node = Ranks::up_to(8);
  const Duration modelled = time_of(profile, OperationKind::all_reduce, 4_KiB, node);
  profile.collectives = {{OperationKind::all_reduce, 8, 1_MiB, 92_us}};
  EXPECT_EQ(time_of(profile, OperationKind::all_reduce, 4_KiB, node), modelled);
  profile.collectives = {{OperationKind::all_reduce, 8, 1_MiB, 2_us}};
  EXPECT_EQ(time_of(profile, OperationKind::all_reduce, 4_KiB, node), 2_us);
}

/// Published with vTrain: an all-reduce of 32 MiB takes 229 us among 2 A100, 355.7 us among 8; of
/// 256 and 512 MiB among 8 2,158 and 4,187.6 us. Half-way in log it is their geometric mean.
TEST(CollectiveModel, AllReducesOfA100NodesWereMeasured) {
  const HardwareProfile a100 = find_hardware_profile("a100_80gb", "t");
  constexpr Bytes between{379'625'062};  // 256 MiB x sqrt(2)
  const Ranks node = Ranks::up_to(8);
  EXPECT_EQ(time_of(a100, OperationKind::all_reduce, 32_MiB, Ranks::up_to(2)), 229_us);
  EXPECT_EQ(time_of(a100, OperationKind::all_reduce, 32_MiB, node), 355'700_ns);
  EXPECT_NEAR(time_of(a100, OperationKind::all_reduce, between, node).seconds(),
              std::sqrt(2158e-6 * 4187.6e-6), 1e-8);
  EXPECT_GT(cost_of(a100, OperationKind::all_reduce, 32_MiB, node).channels, 0);
}

/// Twice as long as the model says: links are half as busy.
TEST(CollectiveModel, WhatTakesLongerAsksLinksForLess) {
  HardwareProfile profile = cluster();
  const Ranks node = Ranks::up_to(8);
  const CollectiveCost modelled = cost_of(profile, OperationKind::all_reduce, 64_MiB, node);
  profile.collectives = {{OperationKind::all_reduce, 8, 64_MiB, modelled.time + modelled.time}};
  const CollectiveCost measured = cost_of(profile, OperationKind::all_reduce, 64_MiB, node);
  EXPECT_NEAR(measured.use.within, modelled.use.within / 2, 1e-9);
  EXPECT_EQ(measured.channels, modelled.channels);
}

/// The PCIe card, the A800 and whoever writes a node down have other links.
TEST(CollectiveModel, SamplesOfAnotherNodeAreNotTakenOver) {
  EXPECT_FALSE(find_hardware_profile("a100_80gb_tcp", "t").collectives.empty());
  EXPECT_TRUE(find_hardware_profile("a100_pcie_80gb", "t").collectives.empty());
  EXPECT_TRUE(find_hardware_profile("a800_80gb", "t").collectives.empty());
}

TEST(CollectiveModel, ReplicasOnTheirOwnRailsDoNotTouchTheNodesLinks) {
  const CollectiveCost cost =
      cost_of(cluster(), OperationKind::all_reduce, 100_MB, Ranks::spaced(3, 8, 4));
  EXPECT_EQ(cost.use.within, 0);
  // 1.5 x 100 MB in 3254.4 us over 48 GB/s.
  EXPECT_NEAR(cost.use.across, 0.9602, 1e-4);
}

TEST(CollectiveModel, AMessageBetweenNodesHasItsRail) {
  // 8.4 + 14 us and 48 MB at the slot's 48 GB/s; inside the node 8.4 + 3.4 us, 370.8 GB/s.
  EXPECT_EQ(time_of(cluster(), OperationKind::send, 48_MB, Ranks{0, 8}), 1'022'400_ns);
  EXPECT_EQ(time_of(cluster(), OperationKind::send, Bytes{370'800'000}, Ranks{0, 1}), 1'011'800_ns);
}

TEST(CollectiveModel, NodesWithoutAnInterconnectAreAnError) {
  HardwareProfile profile = cluster();
  profile.interconnect.reset();
  try {
    time_of(profile, OperationKind::all_gather, 1_MB, Ranks::up_to(16));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("16 ranks on 2 nodes"));
    EXPECT_THAT(error.what(), HasSubstr("add \"interconnect\""));
  }
}

TEST(LinkSlowdown, LinksThatAreAskedForTooMuchServeEveryoneLess) {
  EXPECT_EQ(link_slowdown(LinkUse{0.9, 0} + LinkUse{0, 1}), 1);
  EXPECT_DOUBLE_EQ(link_slowdown(LinkUse{0.9, 1} + LinkUse{0.9, 1}), 2);
  EXPECT_EQ(link_slowdown({}), 1);
}

}  // namespace
}  // namespace shardscope
