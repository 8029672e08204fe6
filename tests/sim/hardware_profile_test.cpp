#include "sim/hardware/hardware_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace shardscope {
namespace {

using ::testing::HasSubstr;

const std::string marks = R"("origin": "vendor", "source": "a data sheet", "date": "2026-01-02")";

/// A profile file with `more` members at its end.
std::string profile_text(const std::string& memory, const std::string& more = "") {
  return R"({"schema": "shardscope.hardware/1", "name": "test", "source": "a data sheet", "device": "cuda",
    "memory": {"value": )" +
         memory + ", " + marks + R"(},
    "peak": {"value": "2 TFLOP/s", )" +
         marks + R"(},
    "memory_bandwidth": {"value": "900 GB/s", )" +
         marks + R"(},
    "operation_overhead": {"value": "5 us", )" +
         marks + "}" + more + "}";
}

HardwareProfile read(const std::string& text) {
  return read_hardware_profile(JsonValue::parse(text, "test.json"));
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(HardwareProfile, ReadsQuantitiesWithUnits) {
  const HardwareProfile profile = read(profile_text("\"80 GiB\""));
  EXPECT_EQ(profile.memory, 80_GiB);
  EXPECT_EQ(profile.peak.flops_per_s, 2e12);
  EXPECT_EQ(profile.memory_bandwidth.bytes_per_s, 900e9);
  EXPECT_EQ(profile.operation_overhead, 5_us);
}

TEST(HardwareProfile, ReadsAPeakOfBfloat16WhereThereIsOne) {
  const HardwareProfile plain = read(profile_text("\"80 GiB\""));
  EXPECT_EQ(peak_of(plain, Dtype::bfloat16).flops_per_s, 2e12);
  const HardwareProfile both = read(
      profile_text("\"80 GiB\"", R"(, "peak_bfloat16": {"value": "8 TFLOP/s", )" + marks + "}"));
  EXPECT_EQ(peak_of(both, Dtype::bfloat16).flops_per_s, 8e12);
  EXPECT_EQ(peak_of(both, Dtype::float32).flops_per_s, 2e12);
  EXPECT_EQ(read(to_json(both)), both);
}

TEST(HardwareProfile, KeepsWhatTheLibraryChoseAndTookForCollectives) {
  const HardwareProfile profile = read(profile_text(
      "\"80 GiB\"", R"(, "collectives": {"samples": [
        {"kind": "all_gather", "ranks": 4, "bytes": "1 MiB", "time": "90 us", "algorithm": "RING",
         "protocol": "LL128", "channels": 16},
        {"kind": "all_gather", "ranks": 4, "bytes": "2 MiB", "time": "95 us"}], )" +
                        marks + R"(}, "communicator_memory": {"value": "18 MiB", )" + marks +
                        R"(}, "collective_memory": {"samples": [
        {"kind": "all_gather", "ranks": 4, "memory": "18 MiB"}], )" +
                        marks + "}"));
  ASSERT_EQ(profile.collectives.size(), 2u);
  EXPECT_EQ(profile.collectives[0].choice,
            (CollectiveChoice{.algorithm = "RING", .protocol = "LL128", .channels = 16}));
  EXPECT_EQ(profile.collectives[1].choice, CollectiveChoice{});
  EXPECT_EQ(profile.communicator_memory, 18_MiB);
  EXPECT_EQ(profile.collective_memory,
            (std::vector<CollectiveMemory>{{OperationKind::all_gather, 4, 18_MiB}}));
  EXPECT_EQ(read(to_json(profile)), profile);
}

const std::string gpu_and_node = R"(
    "gpu": {"name": "a GPU", "multiprocessors": 132, "boost_clock": "1830 MHz", "l2_cache": "50 MiB",
      "power_limit": "700 W", "float32": "66.9 TFLOP/s", "bfloat16": "989.4 TFLOP/s", )" +
                                 marks + R"(},
    "node": {"gpus": 8, "fabric": "nvswitch", "nvlinks": 18, "cpu": "intel", )" +
                                 marks + R"(},
    "interconnect": {"kind": "roce", "adapters": 4, "rate": "100 Gbit/s", "oversubscription": 3,
      "nodes_per_leaf": 16, )" + marks +
                                 "}";

TEST(HardwareProfile, ReadsTheSectionsOfACluster) {
  const HardwareProfile profile = read(profile_text("\"80 GiB\"", ", " + gpu_and_node));
  ASSERT_TRUE(profile.gpu && profile.node && profile.interconnect);
  EXPECT_EQ(profile.gpu->multiprocessors, 132);
  EXPECT_EQ(profile.gpu->bfloat16, FlopRate{989.4e12});
  EXPECT_EQ(profile.gpu->float8, std::nullopt);
  EXPECT_EQ(profile.node->fabric, Fabric::nvswitch);
  EXPECT_EQ(profile.ranks_per_node, 8);
  EXPECT_EQ(profile.interconnect->rate.bytes_per_s, 12.5e9);  // 100 Gbit/s
  EXPECT_TRUE(profile.interconnect->gpu_direct);
  EXPECT_EQ(profile.provenance.at("node"),
            (Provenance{Origin::vendor, "a data sheet", "2026-01-02"}));
  EXPECT_EQ(read(to_json(profile)), profile);
}

TEST(HardwareProfile, ClocksAndPowersThatNoGpuHasAreRefused) {
  const auto complaint = [](const std::string& what, const std::string& by) {
    std::string text = gpu_and_node;
    text.replace(text.find(what), what.size(), by);
    try {
      (void)read(profile_text("\"80 GiB\"", ", " + text));
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(complaint("700 W", "1e-300 W"),
              testing::HasSubstr("gpu.power_limit: 1e-300 W is too low to simulate; give at least "
                                 "1 W"));
  EXPECT_THAT(complaint("700 W", "1e300 W"), testing::HasSubstr("give at most 1 MW"));
  EXPECT_THAT(complaint("1830 MHz", "1e-300 MHz"), testing::HasSubstr("give at least 1 MHz"));
  EXPECT_THAT(complaint("1830 MHz", "1e300 MHz"), testing::HasSubstr("give at most 1000 GHz"));
  EXPECT_EQ(complaint("700 W", "1 W"), "");
}

TEST(HardwareProfile, APeakThatStandsAloneHidesTheDataSheets) {
  const HardwareProfile profile = read(profile_text("\"80 GiB\"", ", " + gpu_and_node));
  EXPECT_EQ(peak_of(profile, Dtype::float32).flops_per_s, 2e12);
  EXPECT_EQ(peak_of(profile, Dtype::bfloat16).flops_per_s, 989.4e12);
}

TEST(HardwareProfile, ProductsOfFloat16HaveTheirOwnPeak) {
  EXPECT_EQ(peak_of(find_hardware_profile("v100_sxm", ""), Dtype::float16).flops_per_s, 125e12);
  EXPECT_EQ(peak_of(find_hardware_profile("v100_sxm", ""), Dtype::bfloat16).flops_per_s, 15.7e12);
}

TEST(HardwareProfile, AFileNeedsOnlyWhatDiffersFromTheOneItIsBasedOn) {
  const HardwareProfile profile =
      read(R"({"schema": "shardscope.hardware/1", "based_on": "h100_sxm",
    "name": "ours", "source": "here", "memory": {"value": "70 GiB", )" +
           marks + "}}");
  EXPECT_EQ(profile.name, "ours");
  EXPECT_EQ(profile.memory, 70_GiB);
  EXPECT_EQ(profile.gpu, find_hardware_profile("h100_sxm", "").gpu);
  EXPECT_EQ(read(to_json(profile)), profile);
}

TEST(HardwareProfile, NullTakesAnInheritedFigureAway) {
  const HardwareProfile profile =
      read(R"({"schema": "shardscope.hardware/1", "based_on": "h100_sxm",
    "name": "one node", "source": "here", "interconnect": null})");
  EXPECT_FALSE(profile.interconnect);
  EXPECT_TRUE(profile.node);
}

TEST(HardwareProfile, NamesTheNearestProfileToBeBasedOn) {
  EXPECT_THAT(
      error_of(R"({"based_on": "h100_sxn"})"),
      ::testing::AllOf(HasSubstr("test.json:1: based_on"), HasSubstr("did you mean \"h100_sxm\"")));
}

TEST(HardwareProfile, NamesTheShortestProfileThatBeginsOrEndsWithTheWord) {
  EXPECT_THAT(error_of(R"({"based_on": "h100"})"), HasSubstr("did you mean \"h100_sxm\""));
  EXPECT_THAT(error_of(R"({"based_on": "4090"})"), HasSubstr("did you mean \"rtx4090\""));
}

TEST(HardwareProfile, IsFoundHoweverItsNameIsSpelled) {
  EXPECT_EQ(find_hardware_profile("RTX 4090", "").name, find_hardware_profile("rtx4090", "").name);
  EXPECT_EQ(find_hardware_profile("H100-SXM", "").name, find_hardware_profile("h100_sxm", "").name);
}

TEST(HardwareProfile, NamesTheNearestFabric) {
  std::string text = gpu_and_node;
  text.replace(text.find("nvswitch"), 8, "nvswich");
  EXPECT_THAT(error_of(profile_text("\"80 GiB\"", ", " + text)),
              ::testing::AllOf(HasSubstr("node.fabric"), HasSubstr("did you mean \"nvswitch\"")));
}

TEST(HardwareProfile, RefusesAFabricWithoutItsLinks) {
  std::string text = gpu_and_node;
  text.replace(text.find("\"nvlinks\": 18, "), 15, "");
  EXPECT_THAT(error_of(profile_text("\"80 GiB\"", ", " + text)), HasSubstr("add \"nvlinks\""));
}

TEST(HardwareProfile, RefusesRanksOfANodeThatAreNotItsGpus) {
  EXPECT_THAT(error_of(profile_text("\"80 GiB\"", ", \"ranks_per_node\": 4, " + gpu_and_node)),
              HasSubstr("4 ranks in a node of 8 GPUs"));
}

TEST(HardwareProfile, KeepsTheSpreadOfAFigure) {
  const HardwareProfile profile = read(profile_text(
      "\"80 GiB\"",
      R"(, "link": {"bandwidth": "9 GB/s", "latency": "1 us", "spread": 0.07, )" + marks + "}"));
  EXPECT_EQ(profile.provenance.at("link").spread, 0.07);
  EXPECT_EQ(read(to_json(profile)), profile);
}

TEST(HardwareProfile, KeepsWhereAFigureComesFrom) {
  EXPECT_EQ(read(profile_text("\"80 GiB\"")).provenance.at("memory"),
            (Provenance{Origin::vendor, "a data sheet", "2026-01-02"}));
}

TEST(HardwareProfile, RefusesABareNumber) {
  EXPECT_THAT(error_of(profile_text("80")), ::testing::AllOf(HasSubstr("test.json:2: memory.value"),
                                                             HasSubstr("without a unit")));
}

TEST(HardwareProfile, RefusesAnUnknownKey) {
  EXPECT_THAT(error_of(profile_text("\"80 GiB\"", ", \"memory_bandwith\": 1")),
              HasSubstr("memory_bandwidth"));
}

TEST(HardwareProfile, RefusesAFigureThatIsNotGreaterThanZero) {
  EXPECT_THAT(error_of(profile_text("\"0 B\"")), HasSubstr("greater than zero"));
}

TEST(HardwareProfile, RefusesAFigureWithoutSource) {
  std::string text = profile_text("\"80 GiB\"");
  text.replace(text.find("\"source\": \"a data sheet\", \"date\""), 24 + 2, "");
  EXPECT_THAT(error_of(text), HasSubstr("source"));
}

TEST(HardwareProfile, RefusesACollectiveOfOneRank) {
  EXPECT_THAT(
      error_of(profile_text("\"80 GiB\"", R"(, "collectives": {)" + marks + R"(, "samples": [
        {"kind": "all_gather", "ranks": 1, "bytes": "1 MB", "time": "1 ms"}]})")),
      HasSubstr("collectives.samples[0].ranks"));
}

TEST(HardwareProfile, RefusesAnUnknownKernel) {
  EXPECT_THAT(error_of(profile_text("\"80 GiB\"", R"(, "kernels": {)" + marks + R"(, "samples": [
        {"kernel": {"kind": "linear_sideways"}, "time": "1 ms"}]})")),
              HasSubstr("linear_sideways"));
}

TEST(HardwareProfile, ReadsBackWhatItWrites) {
  HardwareProfile profile = read(profile_text("\"80 GiB\""));
  profile.name = "quoted \"name\" \\ with\ttab";
  profile.link = Link{.bandwidth = {370.8e9}, .latency = 3400_ns};
  profile.graph_operation_overhead = 150_ns;
  profile.first_step_overhead = 300_ms;
  profile.host = HostCosts{.operation = 45_us, .view = 9500_ns, .backward = 0.67};
  profile.module_hook = 110_us;
  profile.host_to_device = Link{.bandwidth = {25.1e9}, .latency = 7_us};
  profile.device_to_host = Link{.bandwidth = {22.5e9}, .latency = 9_us};
  profile.pageable_to_device = Link{.bandwidth = {7.29e9}, .latency = 2200_ns};
  profile.pageable_to_host = Link{.bandwidth = {12.4e9}, .latency = 19500_ns};
  profile.compute_slowdown = 1.2345678901234567;
  profile.collectives_serial = false;
  profile.compute_waits = true;
  profile.kernels = {{LinearBackwardWeightKernel{.layout = WeightLayout::in_out,
                                                 .accumulate = true,
                                                 .has_weight_gradient = false,
                                                 .rows = 2048,
                                                 .in = 384,
                                                 .out = 1152},
                      1234567_ns},
                     {NormForwardKernel{.norm = NormKind::rms_norm, .rows = 7}, 1_ns}};
  profile.collectives = {{OperationKind::reduce_scatter, 4, 1536_B, 42_us}};
  profile.straggling = {{5_ms, 85_us}, {331_ms, 2803178_ns}};
  profile.core_sharing = {{1, 0.4375}, {4, 1}};
  for (const char* key :
       {"graph_operation_overhead", "first_step_overhead", "host", "module_hook", "host_to_device",
        "device_to_host", "pageable_to_device", "pageable_to_host", "link", "kernels",
        "collectives", "straggling", "core_sharing", "contention"})
    profile.provenance[key] = {Origin::measured, "here", "2026-11-21"};
  EXPECT_EQ(read(to_json(profile)), profile);
}

TEST(HardwareProfile, BuiltInDataSheetsCanBeRead) {
  const HardwareProfile profile = find_hardware_profile("h100_sxm", "--cluster");
  EXPECT_EQ(profile.memory, 81007_MiB);  // less than 80 GiB: as CUDA shows it
  EXPECT_EQ(profile.ranks_per_node, 8);
}

TEST(HardwareProfile, AnUnknownNameListsTheBuiltInOnes) {
  try {
    find_hardware_profile("h1000", "--cluster");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("h100_sxm"));
  }
}

}  // namespace
}  // namespace shardscope
