// What the recorder keeps of a launch, and the files that a case brings.
#pragma once

#include <nlohmann/json.hpp>

#include "core/config/values/environment.h"

namespace shardscope::recordings {

/// The variables that record.py shows and hands to the workers.
Environment shown_environment(const Environment& environment);
/// The case's `files`, text or JSON, by name.
ReadFile files_of(const nlohmann::ordered_json& input);

}  // namespace shardscope::recordings
