// The compressed lists in Slurm's variables.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shardscope {

/// Tasks on node `node` from SLURM_STEP_TASKS_PER_NODE: "2(x3),1" is 2, 2, 2, 1. Nothing where the
/// text has no such node.
std::optional<int> slurm_tasks_on_node(std::string_view tasks_per_node, int node);

/// The first host of SLURM_STEP_NODELIST: "gpu[03-05,9],login" is gpu03. Nothing where the text is
/// not such a list.
std::optional<std::string> slurm_first_host(std::string_view node_list);

}  // namespace shardscope
