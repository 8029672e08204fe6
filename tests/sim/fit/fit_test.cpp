// Corrections worked out by hand.
#include "sim/fit/fit.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace shardscope {
namespace {

const Provenance here{Origin::measured, "fitted to a test", "2026-11-21"};

HardwareProfile data_sheet() {
  return {.name = "data sheet",
          .source = "a test",
          .device = "cuda",
          .memory = 80_GB,
          .peak = {60e12},
          .peak_bfloat16 = FlopRate{989e12},
          .memory_bandwidth = {3e12},
          .operation_overhead = 4_us,
          .host_to_device = Link{.bandwidth = {50e9}, .latency = 10_us},
          .link = Link{.bandwidth = {100e9}, .latency = 10_us}};
}

template <class Subject>
void add(Observed<Subject>& observed, const Subject& subject, Duration time, int step = 1) {
  const std::uint32_t place = subject_of(observed, subject);
  observed.timings.push_back({place, step, time});
}

const FittedConstant& constant(const Fit& fit, std::string_view name) {
  static const FittedConstant none;
  for (const FittedConstant& one : fit.constants)
    if (one.name == name) return one;
  ADD_FAILURE() << "no constant " << name;
  return none;
}

TEST(Fit, FindsBandwidthAndLatencyOfALinkFromTwoSizes) {
  // At 50 GB/s and 20 us a hop, a gather by 4 ranks: 3 hops and 3/4 of the bytes.
  // 64 MB: 60 us + 960 us; 4 MB: 60 us + 60 us. The data sheet says 30 + 480 and 30 + 30.
  RunObservations run;
  add(run.collectives, {OperationKind::all_gather, 4, 64_MB}, 1020_us);
  add(run.collectives, {OperationKind::all_gather, 4, 4_MB}, 120_us);
  const Fit fitted = fit(data_sheet(), run, here);
  EXPECT_NEAR(fitted.profile.link->bandwidth.bytes_per_s, 50e9, 5e6);
  EXPECT_NEAR(static_cast<double>(fitted.profile.link->latency.ns), 20'000, 10);
  EXPECT_NEAR(constant(fitted, "link.bandwidth").factor, 0.5, 1e-4);
  EXPECT_NEAR(constant(fitted, "link.latency").factor, 2, 1e-3);
  // 510 and 60 us of 1020 and 120.
  EXPECT_NEAR(fitted.residual_before, 0.5, 1e-9);
  EXPECT_LT(fitted.residual_after, 1e-3);
}

TEST(Fit, LeavesLatencyAloneWhereAllSizesAreAlike) {
  // An all-reduce of 8 MB by 2 ranks: 2 hops of 10 us, and 8 MB in the other 80 us.
  RunObservations run;
  add(run.collectives, {OperationKind::all_reduce, 2, 8_MB}, 100_us);
  const Fit fitted = fit(data_sheet(), run, here);
  EXPECT_NEAR(fitted.profile.link->bandwidth.bytes_per_s, 100e9, 1e7);
  EXPECT_EQ(fitted.profile.link->latency, 10_us);
}

TEST(Fit, ProductsCorrectThePeakOfTheirDtype) {
  // 2 x 4096^3 flops in 250 us: 549.8 TFLOP/s.
  RunObservations run;
  add(run.products, {{.batch = 1, .m = 4096, .n = 4096, .k = 4096}, Dtype::bfloat16}, 250_us);
  const Fit fitted = fit(data_sheet(), run, here);
  EXPECT_NEAR(fitted.profile.peak_bfloat16->flops_per_s, 549.76e12, 0.01e12);
  EXPECT_EQ(fitted.profile.peak, data_sheet().peak);
  EXPECT_EQ(fitted.profile.provenance.at("peak_bfloat16"), here);
}

TEST(Fit, CopiesWithinTheDeviceReadAndWrite) {
  // 100 MB in 100 us are 1 TB/s read and 1 TB/s written; the small one says nothing.
  RunObservations run;
  add(run.copies, {CopyDirection::within_device, 100_MB}, 100_us);
  add(run.copies, {CopyDirection::within_device, 1_kB}, 2_us);
  EXPECT_NEAR(fit(data_sheet(), run, here).profile.memory_bandwidth.bytes_per_s, 2e12, 1e6);
}

TEST(Fit, CopiesFromTheHostGoOneWay) {
  RunObservations run;
  add(run.copies, {CopyDirection::host_to_device, 100_MB}, 4_ms);
  EXPECT_NEAR(fit(data_sheet(), run, here).profile.host_to_device->bandwidth.bytes_per_s, 25e9,
              1e3);
}

TEST(Fit, TheHostTakesTheMedianLaunch) {
  const Fit fitted = fit(data_sheet(), {.launches = {9_us, 3_us, 5_us}}, here);
  EXPECT_EQ(fitted.profile.operation_overhead, 5_us);
  EXPECT_NEAR(constant(fitted, "operation_overhead").factor, 1.25, 1e-9);
}

constexpr Kernel product = LinearForwardKernel{.rows = 128, .in = 64, .out = 64};
constexpr Kernel larger = LinearForwardKernel{.rows = 256, .in = 64, .out = 64};
constexpr Kernel sum = AddKernel{.elements = 1000};

HardwareProfile measured() {
  HardwareProfile profile = data_sheet();
  profile.kernels = {{product, 10_us}, {larger, 20_us}, {sum, 7_us}};
  profile.collectives = {{OperationKind::all_gather, 2, 1_MB, 40_us},
                         {OperationKind::all_gather, 2, 2_MB, 60_us},
                         {OperationKind::all_gather, 4, 2_MB, 90_us}};
  return profile;
}

TEST(Fit, AKernelThatRanReplacesItsSampleAndTakesItsKindAlong) {
  RunObservations run;
  add(run.kernels, product, 15_us);
  const std::vector<KernelSample> kernels = fit(measured(), run, here).profile.kernels;
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_EQ(kernels[0].time, 15_us);
  EXPECT_EQ(kernels[1].time, 30_us);  // by 15 / 10
  EXPECT_EQ(kernels[2].time, 7_us);   // another kind
}

TEST(Fit, AKernelThatNobodyMeasuredBecomesASample) {
  RunObservations run;
  add(run.kernels, Kernel{GeluForwardKernel{{.rows = 8, .features = 8}}}, 3_us);
  const std::vector<KernelSample> kernels = fit(measured(), run, here).profile.kernels;
  ASSERT_EQ(kernels.size(), 4u);
  EXPECT_EQ(kernels[3].time, 3_us);
}

TEST(Fit, CollectivesOfAMeasuredProfileTakeTheirRanksAlong) {
  RunObservations run;
  add(run.collectives, {OperationKind::all_gather, 2, 1_MB}, 80_us);
  const Fit fitted = fit(measured(), run, here);
  EXPECT_EQ(fitted.profile.collectives[0].time, 80_us);
  EXPECT_EQ(fitted.profile.collectives[1].time, 120_us);
  EXPECT_EQ(fitted.profile.collectives[2].time, 90_us);
  EXPECT_EQ(fitted.profile.link, data_sheet().link);
}

TEST(Fit, IsJudgedByStepsThatItHasNotSeen) {
  // Steps 2 and 4 take 10 us, 3 and 5 take 20: fitted to 10, wrong by half of 20. Before, 40: by
  // all.
  HardwareProfile profile = measured();
  profile.kernels[0].time = 40_us;
  RunObservations run;
  for (const int step : {2, 3, 4, 5})
    add(run.kernels, product, step % 2 == 0 ? 10_us : 20_us, step);
  const Fit fitted = fit(profile, run, here);
  EXPECT_TRUE(fitted.is_held_out);
  EXPECT_EQ(fitted.profile.kernels[0].time, 10_us);
  EXPECT_NEAR(fitted.residual_before, 1, 1e-9);
  EXPECT_NEAR(fitted.residual_after, 0.5, 1e-9);
}

TEST(Fit, OfNothingIsAnError) { EXPECT_THROW(fit(data_sheet(), {}, here), Error); }

}  // namespace
}  // namespace shardscope
