// A checkpoint as PyTorch's state dicts of model, optimizer and learning-rate schedule. Tensors are
// float32.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/checkpoint/checkpoint.h"
#include "backend/checkpoint/torch_archive_writer.h"
#include "core/model/model.h"
#include "core/native/job.h"

namespace shardscope {

struct TorchTensor {
  std::string parameter;
  std::string state;  ///< of the optimizer: "step", "exp_avg"; empty: the parameter itself
  Shape shape;
  FloatSource source;
  std::optional<std::size_t> same_as = {};  ///< a tensor that stands before, which it is tied to
};

/// Parameters in the model's order, then tied ones under their other names. Where the checkpoint
/// has no config.json, by name and without tied ones. `from` must outlive the sources.
std::vector<TorchTensor> model_state(Checkpoint& from);
/// The optimizer's states: parameters in the same order, the states of each one together.
std::vector<TorchTensor> optimizer_state(Checkpoint& from);

/// The job that saved the checkpoint; none where another library did.
std::optional<Job> job_of(const Checkpoint& from);

/// A param_group of the optimizer.
struct TorchGroup {
  std::vector<std::string> parameters;  ///< trained ones, in the model's order
  double rate = 0;                      ///< of the next step
  double first_rate = 0;                ///< that the schedule scales
  double weight_decay = 0;
};

enum class TorchGrouping : std::uint8_t {
  one,      ///< all parameters, with the job's weight decay
  by_decay  ///< those that decay, then the rest, for each group of the job
};

/// Throws Error (bad_input) for `one` where the job's parameters do not all have the same rate.
std::vector<TorchGroup> param_groups(const Checkpoint& from, const Job& job, TorchGrouping by);

/// Settings of a group but for its parameters, by name, each value pickled.
std::vector<std::pair<std::string, std::string>> settings_of(const TorchGroup& group,
                                                             const Optimizer& optimizer);

/// The state dict of a LambdaLR that has made `steps` steps, pickled.
std::string pickled_schedule(const std::vector<TorchGroup>& groups, std::int64_t steps);

}  // namespace shardscope
