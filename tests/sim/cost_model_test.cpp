#include "sim/cost/cost_model.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "sim/engine/clock_options.h"

namespace shardscope {
namespace {

/// 1 TFLOP/s, 100 GB/s, no samples.
HardwareProfile data_sheet() {
  return {.name = "test", .device = "cuda", .peak = {1e12}, .memory_bandwidth = {100e9}};
}

TEST(KernelTime, IsFlopsOverPeakWhereTheProductIsLarge) {
  // 2 x 1024^3 flops at 1 TFLOP/s = 2147.48 us; its 12 MiB take 126 us.
  const HardwareProfile profile = data_sheet();
  EXPECT_EQ(
      CostModel(profile).kernel_time(LinearForwardKernel{.rows = 1024, .in = 1024, .out = 1024}),
      2147484_ns);
}

TEST(KernelTime, IsBytesOverBandwidthWhereLittleIsComputed) {
  // 25e6 floats written = 100 MB at 100 GB/s = 1 ms.
  const HardwareProfile profile = data_sheet();
  EXPECT_EQ(CostModel(profile).kernel_time(FillZeroKernel{.elements = 25'000'000}), 1_ms);
}

TEST(KernelTime, IsTheMeasuredOneWhateverTheScale) {
  HardwareProfile profile = data_sheet();
  CrossEntropyKernel kernel{.rows = 64, .classes = 256};
  profile.kernels.push_back({kernel, 77_us});
  kernel.scale = 0.25;
  EXPECT_EQ(CostModel(profile).kernel_time(kernel), 77_us);
}

TEST(KernelTime, FollowsTheRateOfTheNearestMeasuredOne) {
  // fill_zero of 1000 floats in 1 us is 4 GB/s; 3000 floats take 3 us, not the data sheet's 0.12
  // us.
  HardwareProfile profile = data_sheet();
  profile.kernels.push_back({FillZeroKernel{.elements = 1000}, 1_us});
  EXPECT_EQ(CostModel(profile).kernel_time(FillZeroKernel{.elements = 3000}), 3_us);
}

TEST(HostTime, OfAnUpdateIsItsBytesAtItsShareOfTheNodesMemory) {
  // AdamW of 1e6 floats reads p, g, m, v and writes p, m, v: 28 MB. Of 614.4 GB/s 8 ranks have
  // 76.8 GB/s each, which is 364.58 us; 2 ranks of another node have a half of it each: 91.146 us.
  const HardwareProfile profile = find_hardware_profile("h100_sxm", "--cluster");
  const CostModel model(profile);
  const Bytes moved = bytes_of(AdamWKernel{.elements = 1'000'000});
  EXPECT_EQ(model.host_time(moved, 8), 364583_ns);
  EXPECT_EQ(model.host_time(moved, 64), 364583_ns);
  EXPECT_EQ(model.host_time(moved, 2), 91146_ns);
}

TEST(HostTime, OfACopyIsTheSlotsUnlessALinkWasMeasured) {
  // PCIe 5: 4 x 12 GB/s as NCCL reckons; 48 MB take 1 ms.
  HardwareProfile profile = find_hardware_profile("h100_sxm", "--cluster");
  EXPECT_EQ(CostModel(profile).host_copy_time(Bytes{48'000'000}), 1_ms);
  profile.host_to_device = Link{.bandwidth = {54e9}, .latency = 9_us};
  EXPECT_EQ(CostModel(profile).host_copy_time(Bytes{54'000'000}), 1_ms + 9_us);
  // On the host's own memory it is read and written: 2 x 1 MB at 100 GB/s.
  HardwareProfile cpu = data_sheet();
  cpu.device = "cpu";
  EXPECT_EQ(CostModel(cpu).host_copy_time(Bytes{1'000'000}), 20_us);
}

TEST(HostTime, OfACopyOfPageableMemoryIsThatOfTheDriversCopy) {
  HardwareProfile profile = find_hardware_profile("h100_sxm", "--cluster");
  profile.pageable_to_device = Link{.bandwidth = {8e9}, .latency = 2_us};
  profile.pageable_to_host = Link{.bandwidth = {12e9}, .latency = 20_us};
  const auto time = [&](CopyWay way) {
    return CostModel(profile).pageable_copy_time(Bytes{48'000'000}, way);
  };
  EXPECT_EQ(time(CopyWay::to_device), 6_ms + 2_us);
  EXPECT_EQ(time(CopyWay::to_host), 4_ms + 20_us);
  // It is never faster than PCIe, whose slot moves them in 1 ms; without a rate it is as fast.
  profile.pageable_to_device->bandwidth = {100e9};
  EXPECT_EQ(time(CopyWay::to_device), 1_ms);
  profile.pageable_to_host.reset();
  EXPECT_EQ(time(CopyWay::to_host), 1_ms);
}

// Medians of one H100 (tests/data/h100_kernels/copies.csv). What the processor's cache keeps goes
// faster than the profile's rate.
TEST(HostTime, OfPageableCopiesIsNearWhatAnH100Took) {
  const HardwareProfile profile = find_hardware_profile("h100_sxm", "--cluster");
  const CostModel model(profile);
  const auto ratio = [&](Bytes bytes, CopyWay way, double measured_ns) {
    return static_cast<double>(model.pageable_copy_time(bytes, way).ns) / measured_ns;
  };
  EXPECT_NEAR(ratio(1_GiB, CopyWay::to_device, 142'181'946), 1, 0.06);
  EXPECT_NEAR(ratio(1_GiB, CopyWay::to_host, 90'983'261), 1, 0.06);
  EXPECT_NEAR(ratio(16_MiB, CopyWay::to_host, 1'127'776), 1, 0.25);
  EXPECT_NEAR(ratio(256_KiB, CopyWay::to_host, 51'040), 1, 0.25);
}

TEST(KernelTime, OnAGpuIsItsArchitecturesWhoeverIssuesIt) {
  // What a kernel of native asks and the same asked by an operator of PyTorch's.
  const HardwareProfile profile = find_hardware_profile("a100_80gb", "--cluster");
  const CostModel model(profile);
  const Kernel kernel =
      LinearForwardKernel{.dtype = Dtype::bfloat16, .rows = 4096, .in = 4096, .out = 4096};
  const Duration time = model.kernel_time(kernel);
  EXPECT_EQ(time, model.work_time(device_work(kernel)));
  // 2 x 4096^3 flops at 312 TFLOP/s would be 440.5 us; nothing runs at the peak.
  EXPECT_GT(time.seconds(), 440e-6 / 0.9);
  EXPECT_LT(time.seconds(), 440e-6 / 0.6);
}

TEST(Sharing, KernelsHaveTheMultiprocessorsThatACollectiveLeaves) {
  // 24 channels of 108 multiprocessors: 108 / 84.
  HardwareProfile profile = find_hardware_profile("a100_80gb", "--cluster");
  EXPECT_DOUBLE_EQ(sharing_rules(profile).compute_slowdown, 108.0 / 84);
  profile.compute_slowdown = 1.1;  // what was measured goes before
  profile.provenance["contention"] = {};
  EXPECT_DOUBLE_EQ(sharing_rules(profile).compute_slowdown, 1.1);
}

TEST(Sharing, RanksOfAHostThatWaitLeaveItsCoresToTheOthers) {
  // One rank alone is 4 times as fast as all four, two are twice as fast, three lie between.
  HardwareProfile profile = data_sheet();
  EXPECT_TRUE(core_sharing_of(profile, 4, 1).empty());
  profile.core_sharing = {{1, 0.25}, {2, 0.5}, {4, 1}};
  profile.device = "cuda";  // whose kernels need no core
  EXPECT_TRUE(core_sharing_of(profile, 4, 1).empty());
  profile.device = "cpu";
  profile.ranks_per_node = 2;
  EXPECT_TRUE(core_sharing_of(profile, 4, 1).empty());  // on two hosts
  profile.ranks_per_node = 0;
  EXPECT_EQ(core_sharing_of(profile, 4, 1), (std::vector{0.25, 0.5, 0.75, 1.0}));
  // Two devices that stand for two ranks each.
  EXPECT_EQ(core_sharing_of(profile, 2, 2), (std::vector{0.5, 1.0}));
  // Of a job of two ranks the whole is half of what was measured; of eight no more than all.
  EXPECT_EQ(core_sharing_of(profile, 2, 1), (std::vector{0.5, 1.0}));
  EXPECT_EQ(core_sharing_of(profile, 4, 2), (std::vector{0.5, 1.0, 1.0, 1.0}));
  EXPECT_TRUE(core_sharing_of(profile, 1, 4).empty());  // nobody waits for it
}

TEST(Sharing, PassingWorkOnCostsStagesOfOneRankAlsoWhenAllCompute) {
  HardwareProfile profile = data_sheet();
  profile.device = "cpu";
  profile.core_sharing = {{1, 0.5}, {2, 0.625}, {4, 1.25}};
  EXPECT_EQ(core_sharing_of(profile, 4, 1), (std::vector{0.5, 0.625, 0.9375, 1.25}));
  // What two ranks by themselves would lose was not measured.
  EXPECT_EQ(core_sharing_of(profile, 2, 1), (std::vector{0.8, 1.0}));
  // Ranks of one device lose it in collectives.
  EXPECT_EQ(core_sharing_of(profile, 2, 2), (std::vector{0.5, 1.0}));
}

Kernel product_of(Dtype dtype) {
  return LinearForwardKernel{.dtype = dtype, .rows = 512, .in = 512, .out = 512};
}

TEST(KernelTime, GoesByTheSamplesOfItsOwnDtype) {
  // Of 256^3 products, float32 took 8 us and bfloat16 2 us; 512^3 has 8 times the flops.
  HardwareProfile profile = data_sheet();
  for (const auto& [dtype, time] : {std::pair{Dtype::float32, 8_us}, {Dtype::bfloat16, 2_us}})
    profile.kernels.push_back(
        {LinearForwardKernel{.dtype = dtype, .rows = 256, .in = 256, .out = 256}, time});
  const CostModel model(profile);
  EXPECT_EQ(model.kernel_time(product_of(Dtype::float32)), 64_us);
  EXPECT_EQ(model.kernel_time(product_of(Dtype::bfloat16)), 16_us);
  EXPECT_FALSE(model.borrows(product_of(Dtype::bfloat16)));
}

TEST(KernelTime, BorrowsTheOtherDtypesRateAndSaysSo) {
  HardwareProfile profile = data_sheet();
  profile.kernels.push_back({product_of(Dtype::float32), 64_us});
  const CostModel model(profile);
  EXPECT_EQ(model.kernel_time(product_of(Dtype::bfloat16)), 64_us);
  EXPECT_TRUE(model.borrows(product_of(Dtype::bfloat16)));
  EXPECT_FALSE(model.borrows(product_of(Dtype::float32)));
  Schedule schedule;
  schedule.strategy.precision = Precision::bf16_mixed;
  schedule.kernels = {product_of(Dtype::float32)};
  EXPECT_TRUE(assumptions(schedule, profile).empty());
  schedule.kernels.push_back(product_of(Dtype::bfloat16));
  EXPECT_EQ(assumptions(schedule, profile).size(), 1u);
}

TEST(KernelTime, UsesThePeakOfItsDtype) {
  // 2 x 512^3 flops = 268.4 us at 1 TFLOP/s, 67.1 us at 4.
  HardwareProfile profile = data_sheet();
  EXPECT_EQ(CostModel(profile).kernel_time(product_of(Dtype::bfloat16)), 268435_ns);
  EXPECT_TRUE(CostModel(profile).borrows(product_of(Dtype::bfloat16)));
  profile.peak_bfloat16 = FlopRate{4e12};
  EXPECT_EQ(CostModel(profile).kernel_time(product_of(Dtype::bfloat16)), 67109_ns);
  EXPECT_FALSE(CostModel(profile).borrows(product_of(Dtype::bfloat16)));
  EXPECT_EQ(CostModel(profile).kernel_time(product_of(Dtype::float32)), 268435_ns);
}

}  // namespace
}  // namespace shardscope
