// Settings as a shell script with Megatron-LM's command line.
#pragma once

#include <string>
#include <string_view>

#include "core/config/megatron/settings.h"

namespace shardscope::megatron {

/// A script that starts `settings.world` ranks, `ranks_per_node` on each node where that divides
/// them, with every flag that says what the settings say: read_arguments of it gives them back.
/// `comment`: a line on what it is. Data, tokenizer and learning rate are the caller's ("$@").
/// `settings` must be without contradictions.
std::string command_line(const Settings& settings, int ranks_per_node, std::string_view comment);

}  // namespace shardscope::megatron
