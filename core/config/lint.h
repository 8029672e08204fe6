// What the real tools would ignore, override, refuse or do differently from what a configuration
// file seems to say: the rules of all tools in one list.
#pragma once

#include <string_view>
#include <vector>

#include "core/config/config_file.h"
#include "core/config/config_plan.h"
#include "core/config/values/finding.h"
#include "core/config/workers.h"

namespace shardscope {

struct LintQuestion {
  const ConfiguredModel* model = nullptr;  ///< null: rules that need one are left out
  ConfigPlace place;
};

/// Findings in the order of the file's lines, each once. A file that its tool cannot read is a
/// finding too.
std::vector<Finding> lint(const ConfigFile& file, const LintQuestion& question);

/// A rule's name, and when it fires.
struct LintRule {
  std::string_view name;
  std::string_view when;
};
/// Every rule, in alphabetical order.
const std::vector<LintRule>& lint_rules();

}  // namespace shardscope
