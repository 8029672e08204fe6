// A choice as JSON: what `plan --json` calls settings, and what a run folder keeps of its
// prediction.
#pragma once

#include <filesystem>
#include <string>

#include "sim/planner/choice.h"

namespace shardscope::planner {

/// "runtime", "strategy", "mesh", ... (docs/cli.md).
std::string choice_json(const Choice& choice);

/// A file that holds `choice_json`. Throws Error with file, line, key.
Choice read_choice(const std::filesystem::path& file);

}  // namespace shardscope::planner
