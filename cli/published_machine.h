// The machine of a published run: a built-in cluster, with the network that the row's notes state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/published_row.h"
#include "sim/hardware_profile.h"

namespace shardscope {

struct PublishedMachine {
  HardwareProfile profile;
  std::vector<std::string> assumed;
};

/// By the GPU's name; none for one that no built-in cluster has.
std::optional<PublishedMachine> published_machine(const PublishedRow& row);

/// What all adapters of a node bring, as notes say it: "1600 Gbps node-node", "4x100Gb RoCE per
/// node", "400Gb/s RDMA per GPU", "400 Gb/s (A100) / 800 Gb/s (H100)". None where they say nothing.
std::optional<Bandwidth> stated_network(std::string_view notes, std::string_view gpu,
                                        std::int64_t gpus_per_node);

}  // namespace shardscope
