// doctor: what nvidia-smi and Python say, which profile that is like, and what is wrong with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/machine_facts.h"
#include "cli/machine_findings.h"
#include "cli/nvidia_smi.h"
#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using namespace literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// As a DGX A100 40GB prints it, two of its GPUs and adapters (github.com/NVIDIA/nccl issue 1505).
constexpr std::string_view two_gpus_topology =
    "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV12\tPXB\tSYS\t48-63,176-191\t3\t\tN/A\n"
    "GPU1\tNV12\t X \tPXB\tSYS\t48-63,176-191\t3\t\tN/A\n"
    "NIC0\tPXB\tPXB\t X \tSYS\t\t\t\t\n"
    "NIC1\tSYS\tSYS\tSYS\t X \t\t\t\t\n"
    "\n"
    "Legend:\n\n  X    = Self\n";

InstalledGpu h100(int index) {
  return {.index = index,
          .name = "NVIDIA H100 80GB HBM3",
          .memory = 81559_MiB,
          .used = 4_MiB,
          .driver = "550.54.15",
          .compute_capability = "9.0",
          .power_limit_w = 700,
          .default_power_limit_w = 700};
}

/// A DGX H100 with a torch that fits.
MachineFacts dgx_h100() {
  MachineFacts facts{.cpu = "Intel",
                     .cores = 224,
                     .memory = 2048_GiB,
                     .shared_memory = 1024_GiB,
                     .has_nvidia_smi = true};
  for (int i = 0; i < 8; ++i) {
    facts.gpus.push_back(h100(i));
    facts.links.devices.push_back("GPU" + std::to_string(i));
    facts.links.links.emplace_back(8, "NV18");
    facts.links.links.back()[static_cast<std::size_t>(i)] = "X";
    facts.network.push_back({.name = "mlx5_" + std::to_string(i),
                             .layer = "InfiniBand",
                             .state = "ACTIVE",
                             .rate_gbit_per_s = 400});
  }
  facts.driver_cuda = "12.4";
  facts.python = PythonFacts{.program = "python3",
                             .version = "3.11.7",
                             .torch = "2.6.0",
                             .torch_cuda = "12.4",
                             .sees_gpus = true,
                             .gpus_seen = 8,
                             .architectures = {"sm_80", "sm_90"}};
  facts.calibrated_gpu = "hardware_cuda.json";
  return facts;
}

std::vector<std::string> texts_of(const MachineFacts& facts) {
  std::vector<std::string> texts;
  for (const MachineFinding& finding : machine_findings(facts)) texts.push_back(finding.what);
  return texts;
}

TEST(NvidiaSmi, ReadsTheAnswerToOurQuery) {
  const auto gpus = read_installed_gpus(
      "0, NVIDIA H100 80GB HBM3, 81559, 4, 550.54.15, 9.0, 700.00, 700.00, Disabled\n"
      "1, Tesla V100-SXM2-32GB, 32768, 31000, 550.54.15, 7.0, [N/A], [N/A], [N/A]\n"
      "Unable to determine the device handle for GPU2: Unknown Error\n");
  ASSERT_THAT(gpus, SizeIs(2));
  EXPECT_EQ(gpus[0], h100(0));
  EXPECT_EQ(gpus[1].used, 31000_MiB);
  EXPECT_FALSE(gpus[1].power_limit_w);
}

TEST(NvidiaSmi, ReadsTheLinksOfGpusAndAdapters) {
  const LinkTable table = read_link_table(two_gpus_topology);
  EXPECT_THAT(table.devices, ElementsAre("GPU0", "GPU1", "NIC0", "NIC1"));
  ASSERT_THAT(table.links, SizeIs(4));
  EXPECT_THAT(table.links[0], ElementsAre("X", "NV12", "PXB", "SYS"));
  EXPECT_THAT(table.gpus(), ElementsAre(0U, 1U));
}

TEST(NvidiaSmi, ATableThatIsCutOffIsNoTable) {
  EXPECT_EQ(read_link_table(two_gpus_topology.substr(0, 120)), LinkTable{});
}

TEST(NvidiaSmi, FindsTheCudaOfTheDriver) {
  EXPECT_EQ(driver_cuda_version(
                "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4     |\n"),
            "12.4");
  EXPECT_EQ(driver_cuda_version("no devices were found"), "");
}

TEST(ProfileLike, OfADgxH100IsItsProfileWithoutADifference) {
  EXPECT_EQ(profile_like(dgx_h100()), (ProfileLikeness{"h100_sxm", {}}));
}

TEST(ProfileLike, NamesWhatDiffers) {
  MachineFacts facts = dgx_h100();
  facts.gpus.resize(4);
  const auto like = profile_like(facts);
  ASSERT_TRUE(like);
  EXPECT_EQ(like->profile, "h100_sxm");
  EXPECT_THAT(like->differs, ElementsAre("4 GPUs in this machine, not 8"));
}

TEST(ProfileLike, TellsTheNetworkOfANode) {
  MachineFacts facts = dgx_h100();
  for (NetworkAdapter& adapter : facts.network) adapter.layer = "Ethernet";
  EXPECT_EQ(profile_like(facts)->profile, "h100_sxm_roce");
}

TEST(ProfileLike, TellsCardsAndMemory) {
  MachineFacts facts = dgx_h100();
  facts.links = {};
  facts.network.clear();
  facts.gpus = {h100(0)};
  facts.gpus[0].name = "NVIDIA A100 80GB PCIe";
  facts.gpus[0].memory = 81920_MiB;
  facts.gpus[0].power_limit_w = facts.gpus[0].default_power_limit_w = 300;
  EXPECT_EQ(profile_like(facts)->profile, "a100_pcie_80gb");
  facts.gpus[0].name = "NVIDIA A100-SXM4-40GB";
  facts.gpus[0].memory = 40960_MiB;
  facts.gpus[0].power_limit_w = facts.gpus[0].default_power_limit_w = 400;
  EXPECT_EQ(profile_like(facts)->profile, "a100_40gb");
}

TEST(ProfileLike, TellsCardsByTheNamesThatTheDriverGives) {
  MachineFacts facts = dgx_h100();
  facts.links = {};
  facts.network.clear();
  facts.gpus = {h100(0)};
  const std::pair<const char*, const char*> names[] = {
      {"Tesla T4", "t4"},
      {"NVIDIA A10G", "a10g"},
      {"NVIDIA RTX A6000", "rtx_a6000"},
      {"NVIDIA GeForce RTX 3090", "rtx3090"},
      {"NVIDIA GeForce RTX 4070 Ti SUPER", "rtx4070_ti_super"},
      {"NVIDIA GeForce RTX 4090", "rtx4090"}};
  for (const auto& [name, profile] : names) {
    facts.gpus[0].name = name;
    const auto like = profile_like(facts);
    ASSERT_TRUE(like) << name;
    EXPECT_EQ(like->profile, profile);
  }
}

TEST(ProfileLike, OfAnUnknownGpuIsNone) {
  MachineFacts facts = dgx_h100();
  facts.gpus[0].name = "NVIDIA GeForce GTX 1080";
  EXPECT_FALSE(profile_like(facts));
}

TEST(MachineFindings, OfAWholeMachineAreNone) { EXPECT_THAT(texts_of(dgx_h100()), IsEmpty()); }

TEST(MachineFindings, SayWhyTorchSeesNoGpu) {
  MachineFacts facts = dgx_h100();
  facts.python->sees_gpus = false;
  facts.python->torch_cuda = "13.0";
  EXPECT_THAT(
      texts_of(facts),
      ElementsAre(
          "torch 2.6.0 is built for CUDA 13.0, and the driver 550.54.15 runs CUDA 12.4 at most"));
  facts.python->torch_cuda = "";
  EXPECT_THAT(texts_of(facts),
              ElementsAre("torch 2.6.0 is built without CUDA, and there are 8 GPUs"));
}

// sm_86 code does not run on 9.0; compute_80 is compiled for it when it is loaded; sm_90a runs
// on 9.0 alone.
TEST(MachineFindings, SayWhereTorchHasNoKernels) {
  MachineFacts facts = dgx_h100();
  facts.python->architectures = {"sm_80", "sm_86"};
  EXPECT_THAT(texts_of(facts), ElementsAre(HasSubstr("has no kernels for GPU 0")));
  facts.python->architectures = {"sm_80", "compute_80"};
  EXPECT_THAT(texts_of(facts), IsEmpty());
  facts.python->architectures = {"sm_90a"};
  EXPECT_THAT(texts_of(facts), IsEmpty());
  facts.gpus.front().compute_capability = "12.0";
  EXPECT_THAT(texts_of(facts), ElementsAre(HasSubstr("has no kernels for GPU 0")));
}

TEST(MachineFindings, NameThePairWithASlowLink) {
  MachineFacts facts = dgx_h100();
  facts.links.links[2][5] = facts.links.links[5][2] = "SYS";
  EXPECT_THAT(texts_of(facts),
              ElementsAre("GPU2 and GPU5 are connected by SYS, GPU0 and GPU1 by NV18"));
}

TEST(MachineFindings, NameWhatIsInUseCappedDividedAndUnlike) {
  MachineFacts facts = dgx_h100();
  facts.gpus[3].used = 12_GiB;
  facts.gpus[4].power_limit_w = 500;
  facts.gpus[5].is_divided = true;
  facts.gpus[6].name = "NVIDIA H100 PCIe";
  EXPECT_THAT(
      texts_of(facts),
      ElementsAre(
          "GPU 3: 12.0 GiB of 79.6 GiB are in use",
          "GPU 4: its power limit is 500 W, 700 W is usual", "GPU 5 is divided (MIG)",
          "GPU 0 is NVIDIA H100 80GB HBM3 with 79.6 GiB, GPU 6 is NVIDIA H100 PCIe with 79.6 GiB"));
}

TEST(MachineFindings, NameAnAdapterThatIsDownAndLittleMemoryForRdma) {
  MachineFacts facts = dgx_h100();
  facts.network[7].state = "DOWN";
  facts.locked_limit = 64_KiB;
  EXPECT_THAT(texts_of(facts),
              ElementsAre("network adapter mlx5_7 is DOWN",
                          "a process may lock 64.0 KiB of memory, which is little for RDMA"));
}

TEST(MachineFindings, TheWorstComesFirst) {
  MachineFacts facts = dgx_h100();
  facts.gpus[3].used = 12_GiB;
  facts.python->torch_error = "ImportError: libcudart.so.12";
  const auto findings = machine_findings(facts);
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].severity, Severity::error);
  EXPECT_EQ(findings[1].severity, Severity::warning);
}

/// PATH with a folder before all others.
class ScopedPath {
 public:
  explicit ScopedPath(const std::filesystem::path& first) : before_(std::getenv("PATH")) {
    ::setenv("PATH", (first.string() + ":" + before_).c_str(), 1);
  }
  ~ScopedPath() { ::setenv("PATH", before_.c_str(), 1); }
  ScopedPath(const ScopedPath&) = delete;
  ScopedPath& operator=(const ScopedPath&) = delete;

 private:
  std::string before_;
};

void write_tool(const Workplace& place, const std::string& name, const std::string& script) {
  place.write("bin/" + name, "#!/bin/sh\n" + script);
  ::chmod((place.path() / "bin" / name).c_str(), 0755);
}

/// Tools that answer as those of a machine with two A100 do.
void write_tools(const Workplace& place, const std::string& torch) {
  std::filesystem::create_directory(place.path() / "bin");
  const std::string gpu =
      ", NVIDIA A100-SXM4-40GB, 40960, 1, 550.54.15, 8.0, 400.00, 400.00, Disabled";
  write_tool(place, "nvidia-smi",
             "case $1 in\n--query*) echo '0" + gpu + "'; echo '1" + gpu +
                 "';;\ntopo) cat <<'EOF'\n" + std::string(two_gpus_topology) +
                 "EOF\n;;\n*) echo '| CUDA Version: 12.4 |';;\nesac\n");
  write_tool(place, "python3",
             "echo '{\"version\": \"3.11.7\", \"torch\": \"2.6.0\", " + torch +
                 ", \"architectures\": []}'\n");
}

Outcome doctor_among(const Workplace& place) {
  const ScopedPath path(place.path() / "bin");
  return place.run("doctor --json --quiet");
}

TEST(Doctor, AsksTheToolsInPath) {
  const Workplace place;
  write_tools(place, "\"torch_cuda\": \"12.4\", \"sees_gpus\": true, \"gpus_seen\": 2");
  const Outcome outcome = doctor_among(place);
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json.at("schema"), "shardscope.doctor/1");
  EXPECT_EQ(json.at("gpus").size(), 2U);
  EXPECT_EQ(json.at("gpus")[1].at("memory_bytes"), 42949672960);
  EXPECT_EQ(json.at("driver_cuda"), "12.4");
  EXPECT_EQ(json.at("links").at("rows")[0][1], "NV12");
  EXPECT_EQ(json.at("profile").at("name"), "a100_40gb");
  EXPECT_EQ(json.at("python").at("torch"), "2.6.0");
}

TEST(Doctor, AnswersNoWhereTorchCannotUseTheGpus) {
  const Workplace place;
  write_tools(place, "\"torch_cuda\": \"\", \"sees_gpus\": false, \"gpus_seen\": 0");
  const Outcome outcome = doctor_among(place);
  EXPECT_EQ(outcome.code, 1);
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json.at("findings")[0].at("severity"), "error");
  EXPECT_EQ(json.at("findings")[0].at("message"),
            "torch 2.6.0 is built without CUDA, and there are 2 GPUs");
}

TEST(Doctor, SaysWhatIsNotHere) {
  const Workplace place;
  std::filesystem::create_directory(place.path() / "bin");
  write_tool(place, "python3", "exit 1\n");
  const Outcome outcome = doctor_among(place);
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_TRUE(json.at("python").is_null());
  EXPECT_EQ(outcome.errors, "");
}

TEST(Doctor, APythonThatWasAskedForMustBeThere) {
  const Workplace place;
  place.write("not_python", "text");
  for (const std::string name : {"./no_such_python", "./not_python"}) {
    const Outcome outcome = place.run("doctor --json --quiet --python " + name);
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_EQ(outcome.output, "");
    EXPECT_THAT(outcome.errors, ::testing::HasSubstr("--python: \"" + name + "\" is not there"));
  }
}

TEST(Doctor, APythonThatSaysSomethingElseIsNone) {
  EXPECT_FALSE(read_python_facts("python3", "Segmentation fault"));
  EXPECT_FALSE(read_python_facts("python3", "{\"version\": 3}"));
}

}  // namespace
}  // namespace shardscope::testing
