#include "sim/collectives/collective_time.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

constexpr Link nvlink{.bandwidth = {360e9}, .latency = {3400}};
constexpr Link network{.bandwidth = {50e9}, .latency = {14000}};
constexpr Ring one_node{.ranks = 8, .nodes = 1, .within = nvlink};

TEST(RingAllGather, IsHopsAndTheForeignShareOverBandwidth) {
  // 7 x 3.4 us = 23.8 us; 7/8 x 64 MB / 360 GB/s = 155.556 us.
  EXPECT_EQ(ring_all_gather_time(64_MB, one_node), 179356_ns);
}

TEST(RingAllReduce, IsTwoPasses) {
  EXPECT_EQ(ring_all_reduce_time(64_MB, one_node), 179356_ns * 2);
}

TEST(RingAllGather, CrossesEveryNodeOnceAtTheSlowerBandwidth) {
  // 16 ranks on 2 nodes: 14 hops x 3.4 us + 1 x 14 us = 61.6 us; 15/16 x 64 MB / 50 GB/s = 1200 us.
  EXPECT_EQ(
      ring_all_gather_time(64_MB, {.ranks = 16, .nodes = 2, .within = nvlink, .across = network}),
      1261600_ns);
}

TEST(RingBroadcast, MovesAllBytesOnce) {
  // 23.8 us + 64 MB / 360 GB/s = 177.778 us.
  EXPECT_EQ(ring_broadcast_time(64_MB, one_node), 201578_ns);
}

TEST(RingTime, OfAGroupOfOneIsNothing) {
  EXPECT_EQ(ring_time(OperationKind::all_reduce, 64_MB, {.ranks = 1, .within = nvlink}), 0_ns);
}

TEST(RingTime, OfABarrierIsLatencyAlone) {
  EXPECT_EQ(ring_time(OperationKind::barrier, 64_MB, one_node), 3400_ns * 14);
}

}  // namespace
}  // namespace shardscope
