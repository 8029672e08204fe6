#include "sim/collectives/nccl_model.h"

#include <gtest/gtest.h>

#include "sim/collectives/nccl_search.h"

namespace shardscope {
namespace {

using Kind = OperationKind;
using Algorithm = NcclAlgorithm;
using Protocol = NcclProtocol;

/// 8 H100 on NVSwitch: 6 rings of 60 GB/s, each split in two.
NcclCommunicator h100_node() {
  return {.ranks = 8,
          .nodes = 1,
          .compute_capability = 90,
          .hop = NcclHop::nvlink,
          .nvswitch = true,
          .ll128 = true,
          .ring = {.channels = 12, .within = 30, .across = 30},
          .nvls = {.channels = 8, .within = 40, .across = 60}};
}

/// `nodes` of them with 8 adapters of 400 Gbit/s: 8 rings of 45 GB/s.
NcclCommunicator h100_nodes(int nodes) {
  NcclCommunicator comm = h100_node();
  comm.ranks = 8 * nodes;
  comm.nodes = nodes;
  comm.ring = {.channels = 8, .within = 45, .across = 45};
  comm.nvls = {.channels = 8, .within = 45, .across = 48};
  return comm;
}

double us(const NcclCommunicator& comm, Kind kind, Algorithm algorithm, Protocol protocol,
          Bytes bytes) {
  return nccl_time_us(comm, kind, algorithm, protocol, nccl_rate(comm, kind, algorithm, protocol),
                      bytes);
}

TEST(NcclModel, RingsOfOneNodeAreTheWorkedExample) {
  // 360 GB/s x 8/7 = 411.4; LL128 0.92 of it, LL at most 141 GB/s x 8/7. Latencies 8.4 + 7 x 3.4,
  // 14 + 7 x 1.9, 6.6 + 7 x 0.6.
  const auto rate = [](Protocol p) {
    return nccl_rate(h100_node(), Kind::all_gather, Algorithm::ring, p);
  };
  EXPECT_NEAR(rate(Protocol::simple).bandwidth, 411.43, 0.01);
  EXPECT_NEAR(rate(Protocol::ll128).bandwidth, 378.51, 0.01);
  EXPECT_NEAR(rate(Protocol::ll).bandwidth, 161.14, 0.01);
  EXPECT_NEAR(rate(Protocol::simple).latency_us, 32.2, 1e-9);
  EXPECT_NEAR(rate(Protocol::ll128).latency_us, 27.3, 1e-9);
  EXPECT_NEAR(rate(Protocol::ll).latency_us, 10.8, 1e-9);
}

TEST(NcclModel, PicksTheProtocolOfTheSize) {
  // Cross-overs at 4.6 MB and 23 MB. 4 MB: 10.8 + 4000/161.14; 14.2 MB: 27.3 + 14200/378.51;
  // 256 MB: 32.2 + 256000/411.43.
  const NcclPick small = nccl_pick(h100_node(), Kind::all_gather, 4_MB);
  EXPECT_EQ(small.protocol, Protocol::ll);
  EXPECT_NEAR(small.time.seconds() * 1e6, 35.62, 0.01);
  const NcclPick middle = nccl_pick(h100_node(), Kind::reduce_scatter, Bytes{14'200'000});
  EXPECT_EQ(middle.protocol, Protocol::ll128);
  EXPECT_NEAR(middle.time.seconds() * 1e6, 64.82, 0.01);
  const NcclPick large = nccl_pick(h100_node(), Kind::all_gather, 256_MB);
  EXPECT_EQ(large.protocol, Protocol::simple);
  EXPECT_EQ(large.algorithm, Algorithm::ring);
  EXPECT_EQ(large.channels, 24);
  EXPECT_NEAR(large.time.seconds() * 1e6, 654.42, 0.01);
}

TEST(NcclModel, AllReducesOfOneNodeGoOverTheSwitch) {
  // Ring: 8.4 + 14 x 3.4 + 256000 / (360 x 8/14) = 1300 us. NVLS: 8 channels of
  // min(40 x 0.85 x 7/8 x 2, 60) = 59.5 GB/s, x 8/14: 25 + 256000/272 = 966 us.
  EXPECT_NEAR(us(h100_node(), Kind::all_reduce, Algorithm::ring, Protocol::simple, 256_MB), 1300.4,
              0.1);
  const NcclPick pick = nccl_pick(h100_node(), Kind::all_reduce, 256_MB);
  EXPECT_EQ(pick.algorithm, Algorithm::nvls);
  EXPECT_NEAR(pick.time.seconds() * 1e6, 966.2, 0.1);
  NcclCommunicator without = h100_node();
  without.nvls = {};
  EXPECT_EQ(nccl_pick(without, Kind::all_reduce, 256_MB).algorithm, Algorithm::ring);
}

TEST(NcclModel, TwoNodesAddOneNetworkHopToAGather) {
  // 15 steps, one of them 14 us, the others 3.4: 8.4 + 47.6 + 14 = 70; 8 x 45 x 16/15 = 384 GB/s.
  const NcclRate simple =
      nccl_rate(h100_nodes(2), Kind::all_gather, Algorithm::ring, Protocol::simple);
  EXPECT_NEAR(simple.latency_us, 70.0, 1e-9);
  EXPECT_NEAR(simple.bandwidth, 384.0, 1e-9);
  // LL128: 14 + 14 x 1.9 + 4; 8 channels of 36.7. LL: Intel's 39 GB/s; steps at least 1 us.
  const NcclRate ll128 =
      nccl_rate(h100_nodes(2), Kind::all_gather, Algorithm::ring, Protocol::ll128);
  EXPECT_NEAR(ll128.latency_us, 44.6, 1e-9);
  EXPECT_NEAR(ll128.bandwidth, 313.17, 0.01);
  const NcclRate ll = nccl_rate(h100_nodes(2), Kind::all_gather, Algorithm::ring, Protocol::ll);
  EXPECT_NEAR(ll.latency_us, 23.3, 1e-9);
  EXPECT_NEAR(ll.bandwidth, 41.6, 1e-9);
}

TEST(NcclModel, TheHostsVendorCountsBetweenNodes) {
  // AMD: 2 us a step, x 3 for Simple: 14 x 6 + 14; LL at most 22.5 GB/s, x 16/15.
  NcclCommunicator amd = h100_nodes(2);
  amd.cpu = CpuVendor::amd;
  EXPECT_NEAR(nccl_rate(amd, Kind::all_gather, Algorithm::ring, Protocol::simple).latency_us, 106.4,
              1e-9);
  EXPECT_NEAR(nccl_rate(amd, Kind::all_gather, Algorithm::ring, Protocol::ll).bandwidth, 24.0,
              1e-9);
}

TEST(NcclModel, LargeRingsPayForEveryHop) {
  // 64 nodes: 8.4 + 448 x 3.4 + 63 x 14 = 2413.6 us; LL128 14 + 448 x 1.9 + 63 x 4 = 1117.2 us and
  // 293.6 GB/s, so that 400 MB are faster in it: 1117.2 + 400000 / (293.6 x 512/511).
  EXPECT_NEAR(
      nccl_rate(h100_nodes(64), Kind::all_gather, Algorithm::ring, Protocol::simple).latency_us,
      2413.6, 1e-6);
  const NcclPick pick = nccl_pick(h100_nodes(64), Kind::all_gather, 400_MB);
  EXPECT_EQ(pick.protocol, Protocol::ll128);
  EXPECT_NEAR(pick.time.seconds() * 1e6, 2476.9, 0.1);
}

TEST(NcclModel, TreesHaveLogarithmicLatencyAndADipInTheMiddle) {
  // 64 nodes: 8.4 + 2 (7 x 4 + 6 x 14) = 232.4 us; 8 x min(45 x 0.92, 36) / 2 = 144 GB/s, at
  // 1 MiB (2^14 lines of 64 B) half of it: 232.4 + 1048.576 / 72.
  EXPECT_NEAR(us(h100_nodes(64), Kind::all_reduce, Algorithm::tree, Protocol::simple, 1_MiB),
              246.96, 0.01);
  // 256 MiB: 2^22 lines, 0.9.
  EXPECT_NEAR(us(h100_nodes(64), Kind::all_reduce, Algorithm::tree, Protocol::simple, 256_MiB),
              232.4 + 268435.456 / 129.6, 0.01);
}

TEST(NcclModel, NvlsTreesReduceAcrossNodes) {
  // 2 nodes: min(45 x 0.85 x 7/8 x 2, 48 x 2, 57.7) = 57.7 x 8 x 16/30; 25 + 2 x 20.9 us.
  const NcclRate rate =
      nccl_rate(h100_nodes(2), Kind::all_reduce, Algorithm::nvls_tree, Protocol::simple);
  EXPECT_NEAR(rate.bandwidth, 246.19, 0.01);
  EXPECT_NEAR(rate.latency_us, 66.8, 1e-9);
  EXPECT_EQ(nccl_pick(h100_nodes(2), Kind::all_reduce, 100_MB).algorithm, Algorithm::nvls_tree);
  EXPECT_EQ(
      nccl_rate(h100_node(), Kind::all_reduce, Algorithm::nvls_tree, Protocol::simple).bandwidth,
      0);
}

TEST(NcclModel, OneRankPerNodeHasTheTreesLatencyAndPat) {
  // Rails: one adapter, 2 channels of 24 GB/s, 4 nodes. All-reduce by a ring: (8.4 + 6 x 14) x 1.4
  // for a filled ring, 48 x 4/6 = 32 GB/s: 129.36 + 3125 us. By a plain tree 48 x 0.92 x 0.85 / 2.
  NcclCommunicator rail = h100_nodes(4);
  rail.ranks = 4;
  rail.ring = {.channels = 2, .within = 24, .across = 24};
  rail.nvls = {};
  const NcclPick pick = nccl_pick(rail, Kind::all_reduce, 100_MB);
  EXPECT_EQ(pick.algorithm, Algorithm::ring);
  EXPECT_NEAR(pick.time.seconds() * 1e6, 3254.4, 0.1);
  EXPECT_NEAR(nccl_rate(rail, Kind::all_reduce, Algorithm::tree, Protocol::simple).bandwidth,
              18.768, 1e-6);
  // PAT gathers in 8 + 2 x 14/3.5 + 4 x 2.8 us.
  EXPECT_NEAR(nccl_rate(rail, Kind::all_gather, Algorithm::pat, Protocol::simple).latency_us, 27.2,
              1e-9);
  EXPECT_EQ(nccl_rate(h100_nodes(4), Kind::all_gather, Algorithm::pat, Protocol::simple).bandwidth,
            0);
}

TEST(NcclModel, SmallCollectivesRunOnFewChannels) {
  // LL of a ring of 8: 512 threads x 8 B x 8 ranks = 32 KiB a channel; Simple 512 x 64 B.
  const auto channels = [](Protocol protocol, Bytes bytes) {
    return nccl_channels(h100_node(), Algorithm::ring, protocol, bytes);
  };
  EXPECT_EQ(channels(Protocol::ll, 16_B), 1);
  EXPECT_EQ(channels(Protocol::ll, 100_KiB), 3);
  EXPECT_EQ(channels(Protocol::simple, 100_KiB), 3);
  EXPECT_EQ(channels(Protocol::ll128, 100_KiB), 20);  // 640 x 8 B
  EXPECT_EQ(channels(Protocol::simple, 1_GB), 24);
  EXPECT_EQ(nccl_channels(h100_node(), Algorithm::nvls, Protocol::simple, 1_KiB), 16);
}

TEST(NcclModel, SwitchesReduceWhereTheyAreToldTo) {
  // Chain over 4 nodes: 2 x 7 x 2.8 + 30 us, 8 x 45 / 2 GB/s. Direct: 2 (3.7 + 7 x 0.4) + 31 us; an
  // adapter per GPU, x 0.85 on Hopper.
  NcclCommunicator comm = h100_nodes(4);
  EXPECT_EQ(nccl_rate(comm, Kind::all_reduce, Algorithm::collnet_chain, Protocol::simple).bandwidth,
            0);
  comm.collnet = true;
  const NcclRate chain =
      nccl_rate(comm, Kind::all_reduce, Algorithm::collnet_chain, Protocol::simple);
  EXPECT_NEAR(chain.latency_us, 69.2, 1e-9);
  EXPECT_NEAR(chain.bandwidth, 180, 1e-9);
  const NcclRate direct =
      nccl_rate(comm, Kind::all_reduce, Algorithm::collnet_direct, Protocol::simple);
  EXPECT_NEAR(direct.latency_us, 44.0, 1e-9);
  EXPECT_NEAR(direct.bandwidth, 153, 1e-9);
}

TEST(NcclModel, BroadcastsOfOneNodeWaitForOneHop) {
  // 8.4 + 3.4 us; every byte goes over every link once.
  const NcclRate rate = nccl_rate(h100_node(), Kind::broadcast, Algorithm::ring, Protocol::simple);
  EXPECT_NEAR(rate.latency_us, 11.8, 1e-9);
  EXPECT_NEAR(rate.bandwidth, 360, 1e-9);
}

TEST(NcclModel, PcieHasNoLl128) {
  NcclCommunicator pcie = h100_node();
  pcie.hop = NcclHop::pcie;
  pcie.ll128 = false;
  EXPECT_EQ(nccl_rate(pcie, Kind::all_gather, Algorithm::ring, Protocol::ll128).bandwidth, 0);
  EXPECT_NEAR(nccl_rate(pcie, Kind::all_gather, Algorithm::ring, Protocol::simple).latency_us,
              8.4 + 7 * 5.7, 1e-9);
}

TEST(NcclModel, ACommunicatorOfOneTakesNoTime) {
  EXPECT_EQ(nccl_pick({.ranks = 1}, Kind::all_reduce, 1_GB).time, 0_ns);
}

}  // namespace
}  // namespace shardscope
