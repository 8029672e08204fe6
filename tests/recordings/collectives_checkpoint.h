// Activation checkpointing as the recorder of collectives puts it on.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/pytorch/engine/module.h"

namespace shardscope::recordings {

/// The recorder's wrap_checkpoint, of the case's "activation_checkpoint" if it has one. `is_unit`
/// tells wrappers of sharded units (FSDP1's) from what they wrap; `blocks` are all of the model's.
void wrap_checkpoints(const nlohmann::ordered_json& given, eager::Module& root,
                      const std::vector<std::string>& blocks,
                      bool (*is_unit)(const eager::Module&));

}  // namespace shardscope::recordings
