// What nvidia-smi says of a machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/quantities.h"

namespace shardscope {

/// A GPU of this machine. What the tool does not say is none.
struct InstalledGpu {
  int index = 0;
  std::string name;  ///< "NVIDIA H100 80GB HBM3"
  Bytes memory;
  Bytes used;
  std::string driver;              ///< "550.54.15"
  std::string compute_capability;  ///< "9.0"
  std::optional<double> power_limit_w, default_power_limit_w;
  bool is_divided = false;  ///< MIG is on
  bool operator==(const InstalledGpu&) const = default;
};

/// What is asked for, in the order in which `read_installed_gpus` takes it.
constexpr std::string_view gpu_query =
    "index,name,memory.total,memory.used,driver_version,compute_cap,power.limit,"
    "power.default_limit,mig.mode.current";

/// The answer to `gpu_query` with --format=csv,noheader,nounits. A line that is not such an answer
/// is passed over.
std::vector<InstalledGpu> read_installed_gpus(std::string_view text);

/// How devices of a machine reach each other: `nvidia-smi topo -m`.
struct LinkTable {
  std::vector<std::string> devices;             ///< "GPU0", ..., "NIC0", ...
  std::vector<std::vector<std::string>> links;  ///< of each with each: "X", "NV18", "PIX", "SYS"
  bool operator==(const LinkTable&) const = default;

  /// Places of the GPUs in `devices`.
  std::vector<std::size_t> gpus() const;
};
LinkTable read_link_table(std::string_view text);

/// The newest CUDA that the driver runs, of nvidia-smi's headline: "12.4"; empty where it is not
/// there.
std::string driver_cuda_version(std::string_view text);

}  // namespace shardscope
