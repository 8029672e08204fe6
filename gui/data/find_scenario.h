// A scenario by what people call it.
#pragma once

#include <string>
#include <vector>

#include "gui/data/scenario.h"

namespace shardscope::gui {

/// The one of `all` with that label, as it is shown or as it is alone, else with that path or last
/// part of it. Throws Error naming `option` and the labels that there are, or those of several that
/// are called so.
ScenarioPointer find_scenario(const std::vector<ScenarioPointer>& all, const std::string& name,
                              const std::string& option);

}  // namespace shardscope::gui
