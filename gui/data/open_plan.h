// What `shardscope plan -o FOLDER` left, as scenarios.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gui/data/scenario.h"

namespace shardscope::gui {

struct FoundPlace {
  std::filesystem::path run;  ///< its folder
  std::size_t number = 1;     ///< 1: the best
  bool is_chosen = false;     ///< `plan` wrote the file of this one
};

/// The places of a plan, and what it says of strategies that are on none.
struct FoundPlan {
  std::vector<FoundPlace> places;  ///< the best first
  ScenarioPointer given;           ///< the user's own file, figures alone; null: none, or refused
  std::vector<Finding> findings;   ///< "ddp no_shard: takes at least 55.7 ms a step; ..."
};

/// The folder of a plan that `path` is, or whose plan.json it is.
std::optional<std::filesystem::path> plan_folder_of(const std::filesystem::path& path);

/// Throws Error where plan.json cannot be read, and where no place is there: nothing fitted, or an
/// earlier version wrote it.
FoundPlan find_plan(const std::filesystem::path& folder);

/// The place as it is called: "fsdp1 full_shard x8 (place 2, chosen)".
ScenarioPointer with_place(const ScenarioPointer& run, const FoundPlace& place);

}  // namespace shardscope::gui
