// What can be turned in What-if, and how it is said elsewhere: a label, a command line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/model/model.h"
#include "core/native/job.h"
#include "sim/hardware/scaled_profile.h"
#include "sim/planner/choice.h"

namespace shardscope::gui {

struct WhatIfSettings {
  planner::Choice choice;
  std::int64_t length = 128;  ///< tokens of a sequence
  std::string cluster;        ///< a built-in profile's name; "": the run's own machine
  MachineScales scales;
  bool operator==(const WhatIfSettings&) const = default;
};

/// "fsdp2 full_shard x16, batch 2, bf16_mixed; h200_sxm, link rate x 2".
std::string label_of(const WhatIfSettings& settings);

/// The choice under another runtime: what that one does not have becomes its nearest or usual.
planner::Choice under(planner::Choice choice, Runtime runtime);
/// The choice on `world` ranks: a hybrid keeps its shards where they divide them, and an axis
/// tensor stays where it does.
planner::Choice on_ranks(planner::Choice choice, int world);
/// With this strategy, and the mesh that it has on as many ranks; without an axis tensor where it
/// has none.
planner::Choice with_sharding(planner::Choice choice, ShardingStrategy sharding);

/// Where a command line finds what it starts from.
struct CommandPlace {
  std::filesystem::path job;       ///< the run's job.json
  std::filesystem::path hardware;  ///< of the run, or of the figures that were turned
  const Job& run_job;
  const Model& model;
  const WhatIfSettings* own = nullptr;  ///< of a run under PyTorch: what its job says itself
  bool is_of_file = false;              ///< that job names a file, which says how it shards
};

struct SimulateCommand {
  std::vector<std::string> arguments;  ///< `shardscope` first
  std::vector<std::string> unsaid;     ///< what no option says: "prefetch both: accelerate's file"
  std::string text() const;            ///< quoted for a shell
};
/// The same question for `shardscope simulate`.
SimulateCommand simulate_command(const WhatIfSettings& settings, const CommandPlace& place);

}  // namespace shardscope::gui
