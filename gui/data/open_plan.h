// What `shardscope plan -o FOLDER` left, as scenarios.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gui/data/scenario.h"

namespace shardscope::gui {

/// A place of a plan, and strategies that are on none.
struct FoundPlan {
  std::vector<std::filesystem::path> places;  ///< run folders, the best first
  std::vector<Finding> findings;  ///< "ddp no_shard: takes at least 55.7 ms a step; ..."
};

/// The folder of a plan that `path` is, or whose plan.json it is.
std::optional<std::filesystem::path> plan_folder_of(const std::filesystem::path& path);

/// Throws Error where plan.json cannot be read, and where no place is there: nothing fitted, or an
/// earlier version wrote it.
FoundPlan find_plan(const std::filesystem::path& folder);

}  // namespace shardscope::gui
