// HardwareProfile: what the cost model knows of a machine. JSON on disk; every figure says whether
// a vendor stated it, this program measured it, or somebody assumed it, with source and date.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/quantities.h"
#include "core/format/json_reader.h"
#include "core/schedule/kernel.h"
#include "core/schedule/samples.h"
#include "core/schedule/schedule.h"
#include "sim/hardware/cluster.h"
#include "sim/hardware/provenance.h"

namespace shardscope {

/// One direction of one ring through the devices of a node, or between nodes; or of copies between
/// host and device.
struct Link {
  Bandwidth bandwidth;  ///< that the ring keeps up
  Duration latency;     ///< of one hop
  bool operator==(const Link&) const = default;
};

/// What an eager PyTorch program takes of the host's time: Python, the dispatcher, autograd.
struct HostCosts {
  Duration operation;  ///< an operator that issues a kernel
  Duration view;       ///< one that issues nothing: a view, a fresh tensor
  /// Of both, what an operator takes that autograd's engine runs in the backward, from C++ and
  /// without modules. What is run again of a forward takes all.
  double backward = 1;
  bool operator==(const HostCosts&) const = default;
};

/// A machine's figures. A profile that was measured has samples; one from a data sheet has links
/// instead.
struct HardwareProfile {
  std::string name;    ///< "this machine", "h100_sxm"
  std::string source;  ///< one line for people: "measured 2026-11-21 on AMD EPYC" or a data sheet
  std::string device;  ///< "cpu" or "cuda"
  int threads_per_rank = 1;
  int ranks = 1;  ///< that ran side by side while measuring
  Bytes memory;   ///< of one device
  /// What a process takes of a device beside its allocator: for its CUDA context with the kernels
  /// that are loaded, and for each of NCCL's communicators.
  std::optional<Bytes> context_memory;
  std::optional<Bytes> communicator_memory;
  int compute_capability = 0;  ///< of cuda: 90 is 9.0; 0: not known
  FlopRate peak;               ///< best matrix product of float32 seen (measured) or stated
  std::optional<FlopRate> peak_bfloat16;  ///< the same of bfloat16
  Bandwidth memory_bandwidth;
  Duration operation_overhead;                       ///< of issuing one kernel
  std::optional<Duration> graph_operation_overhead;  ///< the same where steps are replayed
  /// What a process's first step takes longer than a later one: fresh memory, libraries that load.
  std::optional<Duration> first_step_overhead;
  std::optional<HostCosts> host;  ///< of eager PyTorch programs
  /// The Python code that DeepSpeed's stage 3 runs at one end of a module's forward or backward,
  /// without the operators that it calls. None: not known, so that it takes no time.
  std::optional<Duration> module_hook;
  std::optional<Link> host_to_device;  ///< copies from the host's memory, where it is another
  std::optional<Link> device_to_host;
  /// The same of memory that is not locked, which the driver copies once more. None: as the others.
  std::optional<Link> pageable_to_device;
  std::optional<Link> pageable_to_host;
  std::vector<KernelSample> kernels;
  std::vector<CollectiveSample> collectives;
  std::vector<CollectiveMemory> collective_memory;  ///< what `communicator_memory` is made of
  std::vector<StragglingSample> straggling;         ///< by compute, shortest first
  std::vector<CoreSharingSample> core_sharing;      ///< by ranks, fewest first
  std::optional<Gpu> gpu;
  std::optional<Node> node;  ///< with it, NCCL's model costs what was not measured
  std::optional<Interconnect> interconnect;
  std::optional<Link> link;        ///< among the ranks of one node
  std::optional<Link> network;     ///< among nodes: all adapters of a node together
  int ranks_per_node = 0;          ///< 0: all ranks are in one node; else the node's GPUs
  double compute_slowdown = 1;     ///< factor on compute while a collective runs
  double collective_slowdown = 1;  ///< factor on a collective while compute runs
  bool collectives_serial = true;  ///< collectives run one after the other, in issue order
  bool compute_waits = false;      ///< no kernel starts while a collective runs on its core
  /// By figure ("memory", "peak", "kernels", ...): every figure of the file has one.
  std::map<std::string, Provenance, std::less<>> provenance;

  bool operator==(const HardwareProfile&) const = default;
};

/// The peak of products of `dtype`; float32's where the profile has no other. Factors of one byte
/// are float8's or int8's, whose peaks are the same; without a figure they are as bfloat16.
FlopRate peak_of(const HardwareProfile& profile, Dtype dtype);

/// What the host thread of a job does on such a device.
HostRole host_role(const HardwareProfile& profile);

/// Reads a profile (docs/hardware_profile.md describes the file). Quantities carry units; a bare
/// number, an unknown key, a missing figure or a value out of range throws Error with file, line
/// and key.
HardwareProfile read_hardware_profile(const std::filesystem::path& path);
HardwareProfile read_hardware_profile(const JsonValue& document);

/// The text that `read_hardware_profile` reads back to an equal profile.
std::string to_json(const HardwareProfile& profile);

/// A profile by the name of one that is built in ("h100_sxm") or by file; otherwise an Error that
/// lists the names, the nearest first.
HardwareProfile find_hardware_profile(std::string_view name_or_path, std::string_view where);

}  // namespace shardscope
