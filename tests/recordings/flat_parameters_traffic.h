// The collectives of FSDP2's second iteration, as fsdp2.json and accelerate_v2.json list them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/pytorch/plans/fsdp2.h"

namespace shardscope::recordings {

/// Rows [kind, group, input elements, output elements, dtype, ranks] as rank `rank` issues them:
/// forward and backward of the model of `spec`, sharded as `plan` says.
nlohmann::ordered_json fsdp2_traffic(const nlohmann::ordered_json& spec, const ModuleTree& tree,
                                     const Fsdp2Plan& plan, int world, int rank);

}  // namespace shardscope::recordings
