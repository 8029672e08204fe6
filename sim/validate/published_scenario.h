// A published run as a training that can be played on a machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/quantities.h"
#include "sim/megatron/divided_training.h"
#include "sim/validate/published_row.h"

namespace shardscope {

/// Why the row is no run that can be predicted: "FP8", "pipeline of 4 stages"; "" where it can.
std::string why_not_predicted(const PublishedRow& row);

/// The row must be one that can be predicted. Throws Error where its shape makes no model.
DividedTraining published_scenario(const PublishedRow& row);

/// The measured step: as it stands in the row, or from tokens or flops a second. None where the
/// row has neither. `assumed` is told how it follows.
std::optional<Duration> measured_step(const PublishedRow& row, const DividedTraining& scenario,
                                      std::vector<std::string>& assumed);

}  // namespace shardscope
