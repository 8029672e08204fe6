// Step times that layouts of Megatron-LM do not fall below, without playing each of them.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "core/config/megatron/settings.h"
#include "sim/cost/cost_model.h"
#include "sim/hardware/hardware_profile.h"
#include "sim/megatron/pipeline.h"
#include "sim/megatron/update.h"

namespace shardscope::planner {

/// What a micro-batch of a layer takes depends on this alone, whatever the pipeline, the number of
/// micro-batches and the data-parallel ranks are.
struct LayerKey {
  int tensor = 1, context = 1, expert = 1;
  std::int64_t micro_batch = 1;
  megatron::Recompute recompute = megatron::Recompute::none;
  bool sequence_parallel = false, overlaps_tensor = false;
  bool shards = false;   ///< by the distributed optimizer
  bool several = false;  ///< micro-batches a step
  auto operator<=>(const LayerKey&) const = default;
};
LayerKey layer_key(const megatron::Settings& settings);

/// Layouts of one training. Stages of one and of two layers are recorded once for each key; a
/// stage's time is linear in its layers. Safe to use from several threads.
class MegatronStepBounds {
 public:
  /// `training` and `profile` must outlive it.
  MegatronStepBounds(const megatron::Settings& training, const HardwareProfile& profile);

  /// Of a layout of the training, without contradictions:
  ///
  ///   time >= first forwards of the ranks before r + all work of rank r + their last backwards
  ///           + update, for each rank r of the pipeline (arXiv:2104.04473, 2.2)
  ///
  /// The update counts what Adam moves of a rank's share, the gather of parameters, and the part of
  /// the reduction that is longer than the last backward. Throws Error where a stage cannot be
  /// played.
  Duration least_step(const megatron::Settings& settings);

 private:
  struct LayerTimes {
    StageParts one;              ///< of a stage of one layer
    Duration forward, backward;  ///< of each further one
  };
  struct Held {
    MegatronUpdate one, two;  ///< of stages of so many layers
  };
  const LayerTimes& times_of(const megatron::Settings& settings);
  Duration least_update(const megatron::Settings& settings, int layers, Duration last_backward);
  MegatronUpdate update_of(const megatron::Settings& settings, int layers);

  const megatron::Settings& training_;
  const HardwareProfile& profile_;
  CostModel costs_;
  std::mutex mutex_;
  std::map<LayerKey, std::shared_ptr<const LayerTimes>> times_;
  std::map<std::pair<int, int>, Held> held_;  ///< by tensor and expert ranks
};

}  // namespace shardscope::planner
