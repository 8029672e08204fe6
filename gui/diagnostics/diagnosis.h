// All that should be known of a scenario, the gravest first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gui/data/scenario.h"

namespace shardscope::gui {

/// What was found while it was opened, what its prediction assumed, how its traces were recorded,
/// how much of a foreign trace matched, and which identities hold.
std::vector<Finding> diagnosis_of(const Scenario& scenario);

struct FindingCounts {
  std::int64_t errors = 0, warnings = 0, holding = 0, broken = 0, notes = 0;
};
FindingCounts counts_of(const std::vector<Finding>& findings);

/// "12 identities hold, 1 does not; 2 warnings". `findings` of all scenarios.
std::string summary_text(const std::vector<Finding>& findings);

/// A line each: severity, scenario, where, what, apart by tabs.
std::string plain_text(const std::string& label, const std::vector<Finding>& findings);

}  // namespace shardscope::gui
