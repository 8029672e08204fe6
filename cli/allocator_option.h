// Settings of the CUDA caching allocator, as a training would get them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "sim/allocator/allocator_settings.h"

namespace shardscope {

void declare_allocator_option(Command& command, std::optional<std::string>& allocator);

/// Those of --allocator. Unless given, those of PYTORCH_ALLOC_CONF, else of
/// PYTORCH_CUDA_ALLOC_CONF, as in torch 2.15 (c10/core/AllocatorConfig.h); `assumed` then says so.
/// Throws Error naming the option or the variable.
AllocatorSettings allocator_settings(const std::optional<std::string>& allocator,
                                     std::vector<std::string>& assumed);

}  // namespace shardscope
