#include "cli/machine_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "sim/hardware/builtin_profiles.h"
#include "sim/hardware/hardware_profile.h"

namespace shardscope {
namespace {

using namespace literals;  // NOLINT(google-build-using-namespace): suffixes of amounts

constexpr double memory_tolerance = 0.06;  // drivers and ECC keep some back
constexpr double power_tolerance = 0.03;

/// "NVIDIA A100-SXM4-80GB" as its words.
std::set<std::string> words_of(std::string_view name) {
  std::set<std::string> words;
  while (!name.empty()) {
    const std::size_t end = std::min(name.find_first_of(" -"), name.size());
    if (end > 0) words.emplace(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return words;
}

/// A word of a profile's GPU that says its form, memory or maker, and not which chip it is.
bool is_no_chip(std::string_view word) {
  return word == "GeForce" || word.starts_with("SXM") || word == "PCIe" ||
         word.starts_with("HBM") || word.ends_with("GB");
}

bool is_same_chip(const InstalledGpu& gpu, const Gpu& of_profile) {
  const std::set<std::string> installed = words_of(gpu.name);
  const std::set<std::string> wanted = words_of(of_profile.name);
  return std::all_of(wanted.begin(), wanted.end(), [&](const std::string& word) {
    return is_no_chip(word) || installed.contains(word);
  });
}

bool is_nvlink(std::string_view link) { return link.starts_with("NV"); }

/// Links of each pair of GPUs once.
std::vector<std::pair<std::string, std::string>> gpu_links(const LinkTable& table) {
  std::vector<std::pair<std::string, std::string>> links;
  const std::vector<std::size_t> gpus = table.gpus();
  for (std::size_t a = 0; a < gpus.size(); ++a)
    for (std::size_t b = a + 1; b < gpus.size(); ++b)
      links.emplace_back(table.devices[gpus[a]] + " and " + table.devices[gpus[b]],
                         table.links[gpus[a]][gpus[b]]);
  return links;
}

std::vector<NetworkAdapter> active(const std::vector<NetworkAdapter>& adapters) {
  std::vector<NetworkAdapter> result;
  std::copy_if(adapters.begin(), adapters.end(), std::back_inserter(result),
               [](const NetworkAdapter& adapter) { return adapter.state == "ACTIVE"; });
  return result;
}

NetworkKind kind_of(const NetworkAdapter& adapter) {
  return adapter.layer == "InfiniBand" ? NetworkKind::infiniband : NetworkKind::roce;
}

/// How a machine differs from a profile, each difference with its weight.
class Differences {
 public:
  Differences(const MachineFacts& facts, const HardwareProfile& profile)
      : facts_(facts), profile_(profile), gpu_(facts.gpus.front()) {
    of_gpu();
    if (profile.node) of_node(*profile.node);
    of_network();
  }

  int weight() const { return weight_; }
  std::vector<std::string> take() { return std::move(texts_); }

 private:
  void add(int weight, std::string text) {
    weight_ += weight;
    texts_.push_back(std::move(text));
  }

  void of_gpu() {
    const double ratio = static_cast<double>(gpu_.memory.count) /
                         static_cast<double>(std::max<std::int64_t>(profile_.memory.count, 1));
    if (std::abs(ratio - 1) > memory_tolerance)
      add(100, fmt::format("{} of memory a GPU, not {}", rounded_text(gpu_.memory),
                           rounded_text(profile_.memory)));
    const bool is_card = words_of(gpu_.name).contains("PCIe");
    if (is_card != words_of(profile_.gpu->name).contains("PCIe") && !facts_.gpus.empty() &&
        words_of(profile_.gpu->name).size() > 1)
      add(is_card ? 100 : 60, is_card ? "PCIe cards" : "no PCIe cards");
    if (!gpu_.default_power_limit_w) return;
    const double watts = profile_.gpu->power_limit.watts;
    if (watts > 0 && std::abs(*gpu_.default_power_limit_w / watts - 1) > power_tolerance)
      add(20, fmt::format("a power limit of {:.0f} W, not {:.0f} W", *gpu_.default_power_limit_w,
                          watts));
  }

  void of_node(const Node& node) {
    const auto links = gpu_links(facts_.links);
    const bool wants_nvlink = node.fabric != Fabric::pcie;
    const bool has_nvlink = std::any_of(links.begin(), links.end(),
                                        [](const auto& link) { return is_nvlink(link.second); });
    if (!links.empty() && has_nvlink != wants_nvlink)
      add(50, has_nvlink ? "NVLink between GPUs" : "no NVLink between GPUs");
    const int gpus = static_cast<int>(facts_.gpus.size());
    if (gpus != node.gpus)
      add(5,
          fmt::format("{} GPU{} in this machine, not {}", gpus, gpus == 1 ? "" : "s", node.gpus));
  }

  void of_network() {
    const std::vector<NetworkAdapter> there = active(facts_.network);
    if (!profile_.interconnect) {
      if (!there.empty()) add(1, fmt::format("{} RDMA adapters", there.size()));
      return;
    }
    const Interconnect& wanted = *profile_.interconnect;
    const double rate = wanted.rate.bytes_per_s * 8e-9;
    const std::string text =
        fmt::format("{} x {:.0f} Gbit/s {}", wanted.adapters, rate, name_of(wanted.kind));
    if (there.empty()) {
      if (wanted.kind != NetworkKind::tcp) add(4, "no RDMA adapter, not " + text);
      return;
    }
    const NetworkAdapter& adapter = there.front();
    const bool is_alike = static_cast<int>(there.size()) == wanted.adapters &&
                          kind_of(adapter) == wanted.kind &&
                          std::abs(adapter.rate_gbit_per_s - rate) < 1;
    if (!is_alike)
      add(kind_of(adapter) == wanted.kind ? 2 : 4,
          fmt::format("{} x {:.0f} Gbit/s {}, not {}", there.size(), adapter.rate_gbit_per_s,
                      name_of(kind_of(adapter)), text));
  }

  const MachineFacts& facts_;
  const HardwareProfile& profile_;
  const InstalledGpu& gpu_;
  int weight_ = 0;
  std::vector<std::string> texts_;
};

class Findings {
 public:
  explicit Findings(const MachineFacts& facts) : facts_(facts) {
    if (facts.python) of_torch(*facts.python);
    of_gpus();
    of_links();
    of_network();
    of_host();
    of_calibration();
  }

  std::vector<MachineFinding> take() {
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) {
      return static_cast<int>(a.severity) > static_cast<int>(b.severity);
    });
    return std::move(found_);
  }

 private:
  void add(Severity severity, std::string what, std::string fix) {
    found_.push_back({severity, std::move(what), std::move(fix)});
  }

  void of_torch(const PythonFacts& python) {
    if (python.torch.empty())
      return add(Severity::note, fmt::format("{} has no torch", python.program),
                 "name the Python that trains with --python; without torch `record` and `train` of "
                 "PyTorch scripts do not run, and predictions do");
    if (!python.torch_error.empty())
      return add(Severity::error, "torch cannot be imported: " + python.torch_error,
                 "install torch again");
    if (facts_.gpus.empty()) return;
    if (!python.sees_gpus) return blind(python);
    if (python.gpus_seen != static_cast<int>(facts_.gpus.size()))
      add(Severity::note,
          fmt::format("torch sees {} of {} GPUs", python.gpus_seen, facts_.gpus.size()),
          "check CUDA_VISIBLE_DEVICES");
    for (const InstalledGpu& gpu : facts_.gpus)
      if (!has_kernels(python, gpu))
        return add(Severity::error,
                   fmt::format("torch {} has no kernels for GPU {} ({}, compute capability {})",
                               python.torch, gpu.index, gpu.name, gpu.compute_capability),
                   "install a torch that is built for it");
  }

  void blind(const PythonFacts& python) {
    const std::string gpus =
        fmt::format("{} GPU{}", facts_.gpus.size(), facts_.gpus.size() == 1 ? "" : "s");
    if (python.torch_cuda.empty())
      return add(
          Severity::error,
          fmt::format("torch {} is built without CUDA, and there are {}", python.torch, gpus),
          "install a torch that is built for CUDA");
    if (major_of(python.torch_cuda) > major_of(facts_.driver_cuda) && !facts_.driver_cuda.empty())
      return add(
          Severity::error,
          fmt::format("torch {} is built for CUDA {}, and the driver {} runs CUDA {} at most",
                      python.torch, python.torch_cuda, facts_.gpus.front().driver,
                      facts_.driver_cuda),
          "install a newer driver, or a torch that is built for that CUDA");
    add(Severity::error, fmt::format("torch {} sees none of the {}", python.torch, gpus),
        "run python -c 'import torch; torch.cuda.init()', which says why; check "
        "CUDA_VISIBLE_DEVICES");
  }

  static int major_of(const std::string& version) {
    int major = 0;
    std::from_chars(version.data(), version.data() + version.size(), major);
    return major;
  }

  /// sm_80 runs on 8.0 and later of the same generation; compute_90 is compiled for what is later.
  static bool has_kernels(const PythonFacts& python, const InstalledGpu& gpu) {
    std::string digits = gpu.compute_capability;
    std::erase(digits, '.');
    const int wanted = major_of(digits);
    if (wanted == 0 || python.architectures.empty()) return true;
    return std::any_of(
        python.architectures.begin(), python.architectures.end(), [&](const std::string& name) {
          const std::size_t at = name.find('_');
          if (at == name.npos) return false;
          const int has = major_of(name.substr(at + 1));
          if (name.ends_with("a")) return has == wanted;  // sm_90a runs on 9.0 alone
          return has <= wanted && (name.starts_with("compute_") || has / 10 == wanted / 10);
        });
  }

  void of_gpus() {
    if (facts_.gpus.empty())
      return add(Severity::note,
                 facts_.has_nvidia_smi ? "nvidia-smi lists no GPU"
                                       : "there is no nvidia-smi here, so no GPU was looked for",
                 "predictions need none: give --cluster, for example h100_sxm");
    for (const InstalledGpu& gpu : facts_.gpus) of_gpu(gpu);
    const auto differs =
        std::find_if(facts_.gpus.begin(), facts_.gpus.end(), [&](const InstalledGpu& gpu) {
          return gpu.name != facts_.gpus.front().name || gpu.memory != facts_.gpus.front().memory;
        });
    if (differs != facts_.gpus.end())
      add(Severity::warning,
          fmt::format("GPU 0 is {} with {}, GPU {} is {} with {}", facts_.gpus.front().name,
                      rounded_text(facts_.gpus.front().memory), differs->index, differs->name,
                      rounded_text(differs->memory)),
          "train on GPUs that are alike: the slowest and the smallest one decides for all");
  }

  void of_gpu(const InstalledGpu& gpu) {
    constexpr Bytes much = 1_GiB;
    if (gpu.used > much)
      add(Severity::warning,
          fmt::format("GPU {}: {} of {} are in use", gpu.index, rounded_text(gpu.used),
                      rounded_text(gpu.memory)),
          "end what uses it (nvidia-smi lists it), or leave that much free with --margin");
    if (gpu.is_divided)
      add(Severity::warning, fmt::format("GPU {} is divided (MIG)", gpu.index),
          "NCCL does not connect its parts; nvidia-smi -i N -mig 0 makes it one again");
    if (gpu.power_limit_w && gpu.default_power_limit_w &&
        *gpu.power_limit_w < *gpu.default_power_limit_w * (1 - power_tolerance))
      add(Severity::warning,
          fmt::format("GPU {}: its power limit is {:.0f} W, {:.0f} W is usual", gpu.index,
                      *gpu.power_limit_w, *gpu.default_power_limit_w),
          fmt::format("nvidia-smi -i {} -pl {:.0f}, if it was not lowered on purpose", gpu.index,
                      *gpu.default_power_limit_w));
  }

  /// Pairs that are connected worse than others.
  void of_links() {
    const auto links = gpu_links(facts_.links);
    const auto fast = std::find_if(links.begin(), links.end(),
                                   [](const auto& link) { return is_nvlink(link.second); });
    if (fast == links.end()) return;
    for (const auto& [pair, link] : links) {
      if (link == fast->second) continue;
      return add(
          Severity::warning,
          fmt::format("{} are connected by {}, {} by {}", pair, link, fast->first, fast->second),
          is_nvlink(link) ? "some links of NVLink may be down: nvidia-smi nvlink --status"
                          : "a ring of all GPUs is as fast as its slowest link; without NVLink "
                            "bridges everywhere, "
                            "keep the groups that shard within the fast pairs, or see nvidia-smi "
                            "nvlink --status");
    }
  }

  void of_network() {
    for (const NetworkAdapter& adapter : facts_.network)
      if (adapter.state != "ACTIVE")
        add(Severity::warning,
            fmt::format("network adapter {} is {}", adapter.name,
                        adapter.state.empty() ? "without a link" : adapter.state),
            "check its cable and port, or leave it out with NCCL_IB_HCA");
    if (!active(facts_.network).empty() && facts_.locked_limit && *facts_.locked_limit < 1_GiB)
      add(Severity::warning,
          fmt::format("a process may lock {} of memory, which is little for RDMA",
                      rounded_text(*facts_.locked_limit)),
          "set ulimit -l unlimited");
  }

  void of_host() {
    if (facts_.shared_memory < 1_GiB)
      add(Severity::warning, fmt::format("/dev/shm has {}", rounded_text(facts_.shared_memory)),
          "NCCL, data loaders and `train` share memory there; in a container give --shm-size=8g or "
          "--ipc=host");
  }

  void of_calibration() {
    if (!facts_.gpus.empty() && facts_.calibrated_gpu.empty())
      add(Severity::note,
          "its GPU was not calibrated: predictions for it take the data sheet's figures",
          "run shardscope calibrate --device cuda, or give --cluster");
    if (facts_.gpus.empty() && facts_.calibrated_cpu.empty())
      add(Severity::note, "this machine was not calibrated",
          "run shardscope calibrate, so that `train` predicts its own times");
  }

  const MachineFacts& facts_;
  std::vector<MachineFinding> found_;
};

}  // namespace

std::optional<ProfileLikeness> profile_like(const MachineFacts& facts) {
  if (facts.gpus.empty()) return std::nullopt;
  std::optional<ProfileLikeness> best;
  int least = 0;
  for (const BuiltinProfile& builtin : builtin_profiles()) {
    const HardwareProfile profile = find_hardware_profile(builtin.name, "--cluster");
    if (!profile.gpu || !is_same_chip(facts.gpus.front(), *profile.gpu)) continue;
    Differences differences(facts, profile);
    if (best && differences.weight() >= least) continue;
    least = differences.weight();
    best = ProfileLikeness{std::string(builtin.name), differences.take()};
  }
  return best;
}

std::vector<MachineFinding> machine_findings(const MachineFacts& facts) {
  return Findings(facts).take();
}

}  // namespace shardscope
