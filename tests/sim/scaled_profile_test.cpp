#include "sim/hardware/scaled_profile.h"

#include <gtest/gtest.h>

#include "sim/collectives/collective_model.h"

namespace shardscope {
namespace {

HardwareProfile measured() {
  HardwareProfile profile{.name = "two ranks", .device = "cpu", .memory = 8_GiB};
  profile.kernels = {{.kernel = LinearForwardKernel{}, .time = 100_us},
                     {.kernel = AddKernel{}, .time = 40_us}};
  profile.collectives = {{.bytes = 1_kB, .time = 10_us}, {.bytes = 1_MB, .time = 50_us}};
  profile.provenance = {{"kernels", {.origin = Origin::measured, .source = "here"}},
                        {"memory", {.origin = Origin::measured, .source = "here"}}};
  return profile;
}

TEST(ScaledProfile, FactorsOfOneLeaveAProfileAsItIs) {
  EXPECT_EQ(scaled(measured(), {}), measured());
}

TEST(ScaledProfile, TheFlopRateShortensProductsAndNothingElse) {
  const HardwareProfile profile = scaled(measured(), {.flop_rate = 2});
  EXPECT_EQ(profile.kernels[0].time, 50_us);
  EXPECT_EQ(profile.kernels[1].time, 40_us);
}

// 10 us of the 1 MB collective's 50 us are latency, which a faster link does not shorten: 10 +
// 40/2.
TEST(ScaledProfile, AFasterLinkShortensWhatACollectiveTakesBeyondItsLatency) {
  const HardwareProfile profile = scaled(measured(), {.link_bandwidth = 2});
  EXPECT_EQ(profile.collectives[0].time, 10_us);
  EXPECT_EQ(profile.collectives[1].time, 30_us);
}

// 3 x 10 us, and the 40 us for bytes as they were.
TEST(ScaledProfile, LatencyIsTheShortestSamples) {
  const HardwareProfile profile = scaled(measured(), {.latency = 3});
  EXPECT_EQ(profile.collectives[0].time, 30_us);
  EXPECT_EQ(profile.collectives[1].time, 70_us);
}

TEST(ScaledProfile, AFigureThatWasTurnedSaysSo) {
  const HardwareProfile profile = scaled(measured(), {.memory = 0.5});
  EXPECT_EQ(profile.memory, 4_GiB);
  EXPECT_EQ(profile.provenance.at("memory").origin, Origin::assumed);
  EXPECT_EQ(profile.provenance.at("memory").source, "what if: x 0.5 of: here");
  EXPECT_EQ(profile.provenance.at("kernels").origin, Origin::measured);
}

/// Time of an all-gather of 4 bytes or of 1 GB among 16 ranks, two nodes.
Duration gather(const MachineScales& scales, Bytes bytes) {
  const HardwareProfile profile = scaled(find_hardware_profile("h100_sxm", "test"), scales);
  return CollectiveModel(profile).cost(OperationKind::all_gather, bytes, Ranks::up_to(16)).time;
}

TEST(ScaledProfile, OnAClusterLatencyIsAllThatSmallCollectivesTake) {
  const double before = gather({}, 4_B).seconds();
  EXPECT_NEAR(gather({.latency = 2}, 4_B).seconds() / before, 2, 0.01);
  EXPECT_NEAR(gather({.network_bandwidth = 2}, 4_B).seconds() / before, 1, 0.01);
}

// Of a node's 8 x 50 GB/s a tenth is left, and then half of that: less than its NVLinks have.
TEST(ScaledProfile, ASlowNetworkBoundsLargeCollectives) {
  const double tenth = gather({.network_bandwidth = 0.1}, 1_GB).seconds();
  EXPECT_NEAR(gather({.network_bandwidth = 0.05}, 1_GB).seconds() / tenth, 2, 0.1);
}

TEST(ScaledProfile, AScaledClusterIsReadBackAsWritten) {
  const HardwareProfile profile =
      scaled(find_hardware_profile("h100_sxm", "test"), {.link_bandwidth = 1.5, .latency = 0.5});
  EXPECT_EQ(read_hardware_profile(JsonValue::parse(to_json(profile), "scaled")), profile);
}

TEST(ScaledProfile, TextNamesWhatWasTurned) {
  EXPECT_EQ(text_of({.memory = 0.5, .link_bandwidth = 1.25}),
            "memory x 0.5, link_bandwidth x 1.25");
  EXPECT_EQ(text_of(MachineScales{}), "");
}

}  // namespace
}  // namespace shardscope
