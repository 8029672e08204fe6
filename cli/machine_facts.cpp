#include "cli/machine_facts.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/hardware_choice.h"
#include "cli/tool_output.h"
#include "core/base/error.h"
#include "core/format/is_there.h"
#include "core/format/json_reader.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr seconds smi_limit{20};
constexpr seconds python_limit{90};  // a cold import of torch from a network disk

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "unknown";
}

Bytes host_memory() {
  return Bytes{static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE)};
}

Bytes shared_memory() {
  struct statvfs room {};
  if (::statvfs("/dev/shm", &room) != 0) return {};
  return Bytes{static_cast<std::int64_t>(room.f_blocks * room.f_frsize)};
}

std::optional<Bytes> locked_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::nullopt;
  return Bytes{static_cast<std::int64_t>(limit.rlim_cur)};
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Ports of RDMA adapters: "4: ACTIVE", "400 Gb/sec (4X NDR)".
std::vector<NetworkAdapter> network_adapters() {
  std::vector<NetworkAdapter> adapters;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/sys/class/infiniband", ignored)) {
    const fs::path port = entry.path() / "ports" / "1";
    NetworkAdapter adapter{.name = entry.path().filename().string(),
                           .layer = first_line(port / "link_layer"),
                           .state = first_line(port / "state")};
    adapter.state.erase(
        0, std::min(adapter.state.find_first_not_of("0123456789: "), adapter.state.size()));
    std::istringstream(first_line(port / "rate")) >> adapter.rate_gbit_per_s;
    adapters.push_back(std::move(adapter));
  }
  std::sort(adapters.begin(), adapters.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return adapters;
}

std::string file_if_there(const fs::path& path) { return is_there(path) ? path.string() : ""; }

std::string text_in(const JsonValue& object, std::string_view key) {
  const auto value = object.find(key);
  return value && value->is_string() ? value->string() : "";
}

}  // namespace

std::string_view python_question() {
  return R"(
import importlib.metadata, json, platform
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
facts = {"version": platform.python_version(), "torch": version("torch"), "torch_cuda": "", "nccl": "", "torch_error": "",
         "sees_gpus": False, "gpus_seen": 0, "architectures": [], "transformers": version("transformers"),
         "accelerate": version("accelerate"), "deepspeed": version("deepspeed")}
if facts["torch"]:
    try:
        import torch
        facts["torch_cuda"] = torch.version.cuda or ""
        facts["sees_gpus"] = bool(torch.cuda.is_available())
        facts["gpus_seen"] = torch.cuda.device_count()
        facts["architectures"] = torch.cuda.get_arch_list()
        if facts["torch_cuda"] and torch.distributed.is_available() and torch.distributed.is_nccl_available():
            facts["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    except Exception as error:
        facts["torch_error"] = (type(error).__name__ + ": " + " ".join(str(error).split()))[:300]
print(json.dumps(facts))
)";
}

std::optional<PythonFacts> read_python_facts(std::string_view program, std::string_view answer) {
  try {
    const JsonValue json = JsonValue::parse(answer, program);
    PythonFacts facts{.program = std::string(program),
                      .version = json.at("version").string(),
                      .torch = text_in(json, "torch"),
                      .torch_cuda = text_in(json, "torch_cuda"),
                      .nccl = text_in(json, "nccl"),
                      .torch_error = text_in(json, "torch_error"),
                      .sees_gpus = json.at("sees_gpus").boolean(),
                      .gpus_seen = static_cast<int>(json.at("gpus_seen").integer(0, 1 << 16)),
                      .transformers = text_in(json, "transformers"),
                      .accelerate = text_in(json, "accelerate"),
                      .deepspeed = text_in(json, "deepspeed")};
    for (const JsonValue& name : json.at("architectures").elements())
      facts.architectures.push_back(name.string());
    return facts;
  } catch (const Error&) {  // whatever stands in that Python's place
    return std::nullopt;
  }
}

void ask_nvidia_smi(MachineFacts& facts) {
  const auto gpus = tool_output(
      {"nvidia-smi", "--query-gpu=" + std::string(gpu_query), "--format=csv,noheader,nounits"},
      smi_limit);
  const auto summary = tool_output({"nvidia-smi"}, smi_limit);
  facts.has_nvidia_smi = gpus || summary;
  if (gpus) facts.gpus = read_installed_gpus(*gpus);
  if (summary) facts.driver_cuda = driver_cuda_version(*summary);
  if (facts.gpus.size() < 2) return;
  if (const auto links = tool_output({"nvidia-smi", "topo", "-m"}, smi_limit))
    facts.links = read_link_table(*links);
}

MachineFacts gather_machine_facts(const std::string& python) {
  MachineFacts facts{.cpu = cpu_name(),
                     .cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)),
                     .memory = host_memory(),
                     .shared_memory = shared_memory(),
                     .locked_limit = locked_limit(),
                     .network = network_adapters(),
                     .calibrated_cpu = file_if_there(calibrated_profile_path("cpu")),
                     .calibrated_gpu = file_if_there(calibrated_profile_path("cuda"))};
  ask_nvidia_smi(facts);
  if (const auto answer = tool_output({python, "-c", std::string(python_question())}, python_limit))
    facts.python = read_python_facts(python, *answer);
  return facts;
}

}  // namespace shardscope
