// The diagnoses of all scenarios as one table, the gravest first.
#pragma once

#include <string>
#include <vector>

#include "gui/data/column_table.h"
#include "gui/data/scenario.h"

namespace shardscope::gui {

struct Diagnosis {
  std::string label;  ///< of the scenario
  std::vector<Finding> findings;
};

/// "✓ holds": a sign and a word, which sort by how grave they are.
std::string severity_text(Severity severity);

/// Columns severity, scenario, where and what.
ColumnTable findings_table(const std::vector<Diagnosis>& diagnoses);

/// "9 identities hold, 1 does not; 2 warnings", of all together.
std::string summary_text(const std::vector<Diagnosis>& diagnoses);

}  // namespace shardscope::gui
