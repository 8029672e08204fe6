#include "sim/collectives/nccl_search.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

/// 8 GPUs with 18 links, 8 adapters of 400 Gbit/s.
HardwareProfile h100() {
  return {.name = "test",
          .device = "cuda",
          .compute_capability = 90,
          .node = Node{.gpus = 8, .fabric = Fabric::nvswitch, .nvlinks = 18, .pcie_generation = 5},
          .interconnect = Interconnect{.adapters = 8, .rate = {50e9}}};
}

HardwareProfile a100() {
  HardwareProfile profile = h100();
  profile.compute_capability = 80;
  profile.node->nvlinks = 12;
  profile.node->pcie_generation = 4;
  profile.interconnect->rate = {25e9};
  return profile;
}

NcclGraph ring_of(const Ranks& ranks, const HardwareProfile& profile) {
  return communicator_of(place(ranks, profile.node->gpus), profile).ring;
}

TEST(NcclSearch, FindsTheRingsThatItsLogsShow) {
  // H100: 18 x 20.6 = 370.8 GB/s: 6 of 60, split. A100: 12 x 20 = 240: 6 of 40, split.
  EXPECT_EQ(ring_of(Ranks::up_to(8), h100()), (NcclGraph{12, 30, 30}));
  EXPECT_EQ(ring_of(Ranks::up_to(8), a100()), (NcclGraph{12, 20, 20}));
}

TEST(NcclSearch, RingsAcrossNodesFitAdaptersAndLinks) {
  // 48 GB/s would leave 7 rings in the 370.8 of NVLink; 45 has 8. A100's adapters carry 24 of 25.
  EXPECT_EQ(ring_of(Ranks::up_to(16), h100()), (NcclGraph{8, 45, 45}));
  EXPECT_EQ(ring_of(Ranks::up_to(16), a100()), (NcclGraph{8, 24, 24}));
}

TEST(NcclSearch, ARailHasItsOwnAdapter) {
  // One rank of each node: one ring of the slot's 48 GB/s, split.
  EXPECT_EQ(ring_of(Ranks::spaced(3, 8, 4), h100()), (NcclGraph{2, 24, 24}));
}

TEST(NcclSearch, GroupsShareTheAdaptersOfTheirNode) {
  // 4 adapters of 100 Gbit/s for 8 rails: each has 6.25 GB/s, of which 6 in one ring; NVLink counts
  // for nothing there.
  HardwareProfile profile = a100();
  profile.interconnect->adapters = 4;
  profile.interconnect->rate = {12.5e9};
  EXPECT_EQ(ring_of(Ranks::spaced(3, 8, 4), profile), (NcclGraph{1, 6, 6}));
  EXPECT_EQ(ring_of(Ranks::up_to(32), profile), (NcclGraph{4, 12, 12}));
}

TEST(NcclSearch, NvlsTakesAHeadPerGpu) {
  // 8 x 40 <= 370.8, 8 x 50 is not; the rate to the switch may rise to 60 inside a node.
  const HardwareProfile profile = h100();
  EXPECT_EQ(communicator_of(place(Ranks::up_to(8), 8), profile).nvls, (NcclGraph{8, 40, 60}));
  EXPECT_EQ(communicator_of(place(Ranks::up_to(16), 8), profile).nvls, (NcclGraph{8, 45, 48}));
  EXPECT_EQ(communicator_of(place(Ranks::up_to(8), 8), a100()).nvls, NcclGraph{});
}

TEST(NcclSearch, AMeshGivesAGroupItsShareOfTheLinks) {
  // 4 GPUs of 12 links, 4 to each other one: two of them have 4 x 20 = 80 GB/s, 2 rings of 40.
  HardwareProfile profile = a100();
  profile.node = Node{.gpus = 4, .fabric = Fabric::nvlink_mesh, .nvlinks = 12};
  EXPECT_EQ(reach_of(place(Ranks::up_to(2), 4), profile).within, 80);
  EXPECT_EQ(reach_of(place(Ranks::up_to(4), 4), profile).within, 240);
}

TEST(NcclSearch, PairsReachFurtherOverPcie) {
  // 2 links of 20 GB/s in a pair; four over slots of the third generation, Intel's 12 / 1.2.
  HardwareProfile profile = a100();
  profile.compute_capability = 75;
  profile.node =
      Node{.gpus = 4, .fabric = Fabric::nvlink_pairs, .nvlinks = 2, .pcie_generation = 3};
  const Reach pair = reach_of(place(Ranks::up_to(2), 4), profile);
  EXPECT_EQ(pair.within, 40);
  EXPECT_EQ(pair.hop, NcclHop::nvlink);
  const Reach all = reach_of(place(Ranks::up_to(4), 4), profile);
  EXPECT_DOUBLE_EQ(all.within, 10);
  EXPECT_EQ(all.hop, NcclHop::pcie);
  EXPECT_EQ(reach_of(place(Ranks::spaced(0, 2, 2), 4), profile).hop, NcclHop::pcie);
}

TEST(NcclSearch, RingsOverTheBridgeOfANodeShareIt) {
  // Fourth generation, AMD: 24 GB/s in one half of 8 GPUs; over the bridge of 20; two interleaved
  // groups have 10 each.
  HardwareProfile profile = a100();
  profile.node = Node{.gpus = 8,
                      .fabric = Fabric::pcie,
                      .pcie_generation = 4,
                      .host_bridge = Bandwidth{20e9},
                      .cpu = CpuVendor::amd};
  EXPECT_EQ(reach_of(place(Ranks::up_to(4), 8), profile).within, 24);
  EXPECT_EQ(reach_of(place(Ranks::up_to(8), 8), profile).within, 20);
  EXPECT_EQ(reach_of(place(Ranks::spaced(0, 2, 4), 8), profile).within, 10);
  EXPECT_FALSE(communicator_of(place(Ranks::up_to(8), 8), profile).ll128);
}

TEST(NcclSearch, AnOversubscribedSpineSlowsWhatLeavesTheLeaf) {
  // Leaves of 4 nodes, 2 to 1. Rings over neighbouring nodes leave a leaf once, which its uplinks
  // carry; replicas 4 nodes apart all leave: half the rate. Within a leaf nothing is lost.
  HardwareProfile profile = h100();
  profile.interconnect->oversubscription = 2;
  profile.interconnect->nodes_per_leaf = 4;
  EXPECT_EQ(reach_of(place(Ranks::up_to(64), 8), profile).adapter, 48);
  EXPECT_EQ(reach_of(place(Ranks::spaced(0, 32, 4), 8), profile).adapter, 25);
  EXPECT_EQ(reach_of(place(Ranks::spaced(0, 8, 4), 8), profile).adapter, 48);
}

TEST(Placement, CountsNodesAndNeighbours) {
  EXPECT_EQ(place(Ranks{0, 8, 16}, 8).nodes, 3);
  EXPECT_EQ(place(Ranks{6, 7, 8}, 8).nodes, 2);
  EXPECT_EQ(place(Ranks{0, 3, 17}, 8).nodes, 2);
  EXPECT_EQ(place(Ranks{0, 8, 16}, 0).nodes, 1);  // all in one
  EXPECT_EQ(place(Ranks::up_to(1'000'000), 8).nodes, 125'000);
}

TEST(Placement, KnowsHowFarNeighboursAre) {
  EXPECT_EQ(
      place(Ranks::spaced(3, 8, 4), 8),
      (Placement{
          .ranks = 4, .nodes = 4, .ranks_per_node = 1, .spacing_in_node = 8, .node_spacing = 1}));
  EXPECT_EQ(place(Ranks::spaced(0, 2, 8), 8).spacing_in_node, 2);
  EXPECT_EQ(place(Ranks::spaced(0, 32, 4), 8).node_spacing, 4);
}

}  // namespace
}  // namespace shardscope
