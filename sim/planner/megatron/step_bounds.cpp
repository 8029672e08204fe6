#include "sim/planner/megatron/step_bounds.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/megatron/divided_step.h"
#include "sim/megatron/training.h"

namespace shardscope::planner {
namespace {

using megatron::Settings;

/// Two stages of so many layers under the layout's key, on as few ranks as it takes.
Settings smallest_of_key(Settings s, std::int64_t layers) {
  constexpr int stages = 2, copies = 2, several = 4;
  const bool has_several = s.micro_batches() > 1;
  s.pipeline = stages;
  s.stages_per_rank = 1;
  s.embedding_as_layer = s.loss_as_layer = false;
  s.first_rank_layers = s.last_rank_layers = 0;
  s.shape.layers = layers * stages;
  s.shape.experts.dense_layers = 0;
  s.world = s.tensor * stages * s.context * s.expert * (s.distributed_optimizer ? copies : 1);
  s.global_batch = s.micro_batch * s.data() * (has_several ? several : 1);
  return s;
}

/// Of each stage, of those that bounds are recorded of. A model in one stage keeps its dense first
/// layers, of which nothing is claimed.
std::vector<int> recorded_layers(const Settings& s) {
  std::vector<int> layers = s.stage_layers();
  if (s.pipeline == 1 && layers.size() == 1)
    layers.front() = std::max(1, layers.front() - static_cast<int>(s.shape.experts.dense_layers));
  return layers;
}

Duration whole(const PassParts& parts) { return parts.before + parts.blocks + parts.behind; }

}  // namespace

LayerKey layer_key(const Settings& s) {
  return {.tensor = s.tensor,
          .context = s.context,
          .expert = s.expert,
          .micro_batch = s.micro_batch,
          .recompute = s.recompute,
          .sequence_parallel = s.sequence_parallel,
          .overlaps_tensor = s.overlaps_tensor,
          .shards = s.distributed_optimizer && s.overlaps_gradients,
          .several = s.micro_batches() > 1};
}

MegatronStepBounds::MegatronStepBounds(const Settings& training, const HardwareProfile& profile)
    : training_(training), profile_(profile), costs_(profile) {}

const MegatronStepBounds::LayerTimes& MegatronStepBounds::times_of(const Settings& settings) {
  const LayerKey key = layer_key(settings);
  {
    const std::scoped_lock lock(mutex_);
    if (const auto found = times_.find(key); found != times_.end()) return *found->second;
  }
  const auto parts = [&](std::int64_t layers) {
    return stage_parts(megatron_training(smallest_of_key(settings, layers), profile_));
  };
  const StageParts one = parts(1), two = parts(2);
  const auto further = [](const PassParts& more, const PassParts& less) {
    return std::max(Duration{}, more.blocks - less.blocks);
  };
  auto times =
      std::make_shared<LayerTimes>(LayerTimes{.one = one,
                                              .forward = further(two.forward, one.forward),
                                              .backward = further(two.backward, one.backward)});
  const std::scoped_lock lock(mutex_);
  return *times_.try_emplace(key, std::move(times)).first->second;
}

/// What a stage of so many layers holds is linear in them.
MegatronUpdate MegatronStepBounds::update_of(const Settings& settings, int layers) {
  const std::scoped_lock lock(mutex_);
  const std::pair key{settings.tensor, settings.expert};
  if (!held_.contains(key)) {
    const auto with = [&](std::int64_t of_stage) {
      Settings small = smallest_of_key(settings, of_stage);
      small.overlaps_gradients = small.overlaps_parameters = false;
      return *megatron_training(small, profile_).update;
    };
    Held held{.one = with(1), .two = with(2)};
    held_.emplace(key, std::move(held));
  }
  const auto [one, two] = held_.at(key);
  const auto extended = [&](std::int64_t of_one, std::int64_t of_two) {
    return of_one + (of_two - of_one) * (layers - 1);
  };
  MegatronUpdate update = one;
  update.elements = extended(one.elements, two.elements);
  update.tensors = extended(one.tensors, two.tensors);
  update.data_ranks = settings.data_context();
  update.shards = settings.distributed_optimizer ? settings.data_context() : 1;
  // Of experts nothing is claimed.
  update.experts = {};
  return update;
}

Duration MegatronStepBounds::least_update(const Settings& settings, int layers,
                                          Duration last_backward) {
  constexpr std::int64_t by_adam = 28, half = 2;  // as sim/megatron/update.cpp
  const MegatronUpdate update = update_of(settings, layers);
  const Duration adam =
      Bytes{update.elements / update.shards * by_adam} / profile_.memory_bandwidth;
  if (update.data_ranks == 1) return adam;
  const Ranks ranks =
      Ranks::spaced(0, update.rank_distance, static_cast<std::size_t>(update.data_ranks));
  const auto collective = [&](OperationKind kind, Bytes bytes) {
    return costs_.collectives().cost(kind, bytes, ranks).time;
  };
  const Duration reduced =
      collective(OperationKind::reduce_scatter, bytes_of(update.elements, settings.gradients));
  const Duration gathered =
      update.shards > 1 ? collective(OperationKind::all_gather, Bytes{update.elements * half})
                        : Duration{};
  return adam + gathered + std::max(Duration{}, reduced - last_backward);
}

Duration MegatronStepBounds::least_step(const Settings& s) {
  const LayerTimes& times = times_of(s);
  const std::vector<int> layers = recorded_layers(s);
  const int stages = static_cast<int>(layers.size());
  const auto pass = [&](const PassParts& one, Duration further, int stage) {
    Duration time = one.blocks + further * (layers[static_cast<std::size_t>(stage)] - 1);
    if (stage == 0) time += one.before;
    if (stage + 1 == stages) time += one.behind;
    return time;
  };
  const std::int64_t micro_batches = s.micro_batches();
  Duration before, longest, longest_backward;
  for (int rank = 0; rank < s.pipeline; ++rank) {
    Duration work, first;
    for (int stage = rank; stage < stages; stage += s.pipeline) {
      const Duration forward = pass(times.one.forward, times.forward, stage);
      const Duration backward = pass(times.one.backward, times.backward, stage);
      work += forward + backward;
      longest_backward = std::max(longest_backward, backward);
      if (stage == rank) first = forward + backward;
    }
    // Its first forward waits for those of the stages before; their last backwards follow its own.
    longest = std::max(longest, before + work * micro_batches);
    before += first;
  }
  const int most = std::max(1, *std::ranges::max_element(layers));
  return longest + least_update(s, most, std::max(longest_backward, whole(times.one.backward)));
}

}  // namespace shardscope::planner
