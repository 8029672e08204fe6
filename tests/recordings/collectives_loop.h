// The training loop of the recorder of collectives.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/pytorch/engine/module.h"
#include "tests/recordings/collectives_log.h"

namespace shardscope::recordings {

/// What a family of runtimes puts into the loop; empty functions do nothing.
struct TrainingHooks {
  std::function<eager::Tensors(const eager::Arguments&)> forward;
  /// Before a micro-batch; what it returns is let go after its backward.
  std::function<std::shared_ptr<void>(bool last)> micro_batch = {};
  /// clip_grad_norm_; true: the norm is a DTensor whose full_tensor() `full_norm` then asks for.
  std::function<bool()> clip = {};
  std::function<void()> full_norm = {};
  std::function<void()> step = {};
  /// Actions between and after the iterations that only the family knows.
  std::function<void(const nlohmann::ordered_json& action)> action = {};
  eager::Tensors parameters = {};  ///< the optimizer's
};

/// The iterations of a case, from the first forward to the phase "end".
void run_training(eager::Session& s, EventLog& log, const nlohmann::ordered_json& given,
                  eager::Module& root, const TrainingHooks& hooks);

}  // namespace shardscope::recordings
