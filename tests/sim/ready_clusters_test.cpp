// The clusters that are built in: figures that contradict each other are typing errors.
#include <gtest/gtest.h>

#include "sim/collectives/collective_model.h"
#include "sim/hardware/builtin_profiles.h"

namespace shardscope {
namespace {

class ReadyCluster : public ::testing::TestWithParam<std::string> {
 protected:
  const HardwareProfile profile_ = find_hardware_profile(GetParam(), "test");
};

TEST_P(ReadyCluster, IsNamedAsItsFileAndReadsBack) {
  EXPECT_EQ(profile_.name, GetParam());
  EXPECT_EQ(read_hardware_profile(JsonValue::parse(to_json(profile_), "written")), profile_);
}

TEST_P(ReadyCluster, SaysWhereEveryFigureComesFrom) {
  for (const char* figure : {"memory", "memory_bandwidth", "gpu", "operation_overhead"})
    EXPECT_FALSE(profile_.provenance.at(figure).source.empty()) << figure;
  EXPECT_FALSE(profile_.provenance.at(profile_.node ? "node" : "link").source.empty());
  EXPECT_EQ(profile_.interconnect.has_value(), profile_.provenance.contains("interconnect"));
}

TEST_P(ReadyCluster, PeaksFollowFromMultiprocessorsAndClock) {
  // Dense operations per clock and multiprocessor: 1024 of Volta, Turing, GA102 and Ada, 512 of
  // GeForce and A10G, 2048 of A100 and MI300X, 4096 of Hopper, 8192 of Blackwell.
  const Gpu& gpu = *profile_.gpu;
  const double clocks = gpu.multiprocessors * gpu.boost_clock.hertz;
  double per_clock = gpu.float16->flops_per_s / clocks;
  const int capability = profile_.compute_capability;
  if (capability >= 100) per_clock /= 8192;
  if (capability == 90) per_clock /= 4096;
  const bool is_half = gpu.name.starts_with("GeForce") || gpu.name.starts_with("A10G");
  if (capability == 89 || capability == 86) per_clock /= is_half ? 512 : 1024;
  if (capability == 80 || capability == 94) per_clock /= 2048;
  if (capability < 80) per_clock /= 1024;
  EXPECT_NEAR(per_clock, 1, 0.07);
  // 128 fused operations, 64 of Volta, Turing and A100.
  const int lanes = capability <= 80 ? 64 : 128;
  EXPECT_NEAR(gpu.float32.flops_per_s / (clocks * lanes * 2), 1, 0.1);
}

TEST_P(ReadyCluster, MemoryIsWhatIsLeftOfTheNamesGigabytes) {
  EXPECT_LT(profile_.memory, 300_GB);
  EXPECT_GT(profile_.memory, 14_GiB);
  EXPECT_NE(profile_.memory.count % 1'000'000'000, 0);  // nothing shows a round number
}

TEST_P(ReadyCluster, CostsCollectivesOfANodeAndOfTwo) {
  const CollectiveModel model(profile_);
  const int gpus = profile_.node ? profile_.node->gpus : profile_.ranks_per_node;
  const CollectiveCost one = model.cost(OperationKind::all_gather, 64_MB, Ranks::up_to(gpus));
  EXPECT_GT(one.time, 0_ns);
  if (!profile_.interconnect && !profile_.network) return;
  const CollectiveCost two = model.cost(OperationKind::all_gather, 64_MB, Ranks::up_to(2 * gpus));
  EXPECT_GT(two.time, one.time);
  EXPECT_LE(two.use.across, 1);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const BuiltinProfile& profile : builtin_profiles()) all.emplace_back(profile.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, ReadyCluster, ::testing::ValuesIn(names()),
                         [](const auto& cluster) { return cluster.param; });

}  // namespace
}  // namespace shardscope
