// `plan --runtime megatron`: the layouts of Megatron-LM ranked, the best as its command line.
#pragma once

#include <stop_token>

#include "cli/plan_options.h"
#include "core/base/error.h"

namespace shardscope {

/// Whether --runtime names megatron, or --config a command line of Megatron-LM. Throws Error where
/// it is asked for beside other runtimes.
bool asks_megatron(const PlanOptions& options);

/// Prints the answer, and leaves it in the folder of -o with the best layout as megatron.sh. Throws
/// Error naming the option that does not count here.
ExitCode run_megatron_plan(const PlanOptions& options, const std::stop_token& stop);

}  // namespace shardscope
