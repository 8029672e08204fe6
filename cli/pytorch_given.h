// What the job file and TrainingArguments say of a training under PyTorch, as if it stood on the
// command line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/job_options.h"
#include "cli/place_options.h"
#include "cli/pytorch_options.h"
#include "cli/sharding_options.h"

namespace shardscope {

struct PytorchGiven {
  JobOptions job;
  PytorchOptions pytorch;
  PlaceOptions place;
  std::vector<std::string> notes;  ///< defaults that were taken, and keys that were not used
  /// The recipe says job.checkpointing: what it is where the tool makes no reentrant checkpoints.
  std::optional<std::string> not_reentrant = {};
};

/// Options of the command line stay as they are; the files fill in the others. A configuration
/// file says strategy, mesh, wrapping and precision itself. Throws Error with file and key.
PytorchGiven with_keys_of_files(const PytorchGiven& given, const ShardingOptions& sharding);

}  // namespace shardscope
