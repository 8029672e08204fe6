// The machine of a published run: a built-in cluster, with the network that the row's notes state.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/hardware/cluster.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/validate/published_row.h"

namespace shardscope {

struct PublishedMachine {
  HardwareProfile profile;
  std::vector<std::string> assumed;
};

/// By the GPU's name; none for one that no built-in cluster has.
std::optional<PublishedMachine> published_machine(const PublishedRow& row);

/// What connects nodes, as notes say it.
struct StatedNetwork {
  Bandwidth rate;                    ///< of all adapters of a node together
  std::optional<int> adapters = {};  ///< of a node
  std::optional<NetworkKind> kind = {};
  bool operator==(const StatedNetwork&) const = default;
};

/// Of "1600 Gbps node-node", "4x100Gb RoCE per node", "400Gb/s RDMA per GPU", "400 Gb/s (A100) /
/// 800 Gb/s (H100) inter-node". None where the notes say nothing of a network.
std::optional<StatedNetwork> stated_network(std::string_view notes, std::string_view gpu,
                                            int gpus_per_node);

/// Rows whose notes say nothing of a network take what another row of their repository says of
/// machines with the same GPUs.
void share_networks(std::vector<PublishedRow>& rows);

}  // namespace shardscope
