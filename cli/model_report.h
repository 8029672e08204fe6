// What `shardscope model` says: the model, its units and shards, and the bytes of model states.
#pragma once

#include <string>
#include <vector>

#include "cli/scenario.h"
#include "core/schedule.h"
#include "core/zero_paper.h"

namespace shardscope {

/// Bytes of model states of a rank: by the paper's closed forms, and by the schedule's own
/// accounting.
struct RankStates {
  ModelStates paper;
  ModelStates schedule;
  ModelStates padding;  ///< of the schedule's: fill and padding of the FlatParameters
};

struct ModelReport {
  Scenario scenario;
  ModelStates whole;
  RankStates rank;
  std::vector<Unit> units;
};

/// Throws Error where the native runtime cannot run the model.
ModelReport report_model(Scenario scenario);

/// The report as `model --json` prints it (docs/cli.md).
std::string to_json(const ModelReport& report);

}  // namespace shardscope
