// The layouts of Megatron-LM ranked by their step time.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "core/base/quantities.h"
#include "core/config/megatron/settings.h"
#include "sim/hardware/hardware_profile.h"
#include "traces/summary.h"

namespace shardscope::planner {

struct MegatronQuestion {
  megatron::Settings training;  ///< model, batch of a step, world, precision
  HardwareProfile profile;
  std::optional<Bytes> margin;  ///< to stay free of a device; none: the usual one
  std::size_t places = 5;
  std::vector<std::string> assumed;
  megatron::Origin origin;  ///< of the training
};

struct MegatronPlace {
  megatron::Settings settings;
  Summary summary;  ///< of the pipeline rank that needs most memory
  int rank = 0;     ///< of all ranks: its first
  int place = 1;
  std::string why;  ///< it is not the first: "4.2% slower: 3.1 ms more idle time"
};

/// The best layout of a mesh that has no place.
struct MegatronLoser {
  megatron::Settings settings;
  std::string why;  ///< "takes at least 812 ms a step, ...", "needs at least 91.4 GiB of ..."
};

struct MegatronAnswer {
  std::vector<MegatronPlace> places;  ///< best first, each of its own mesh
  std::vector<MegatronLoser> losers;  ///< a mesh each, in order of enumeration
  std::size_t layouts = 0;            ///< that were weighed
  std::size_t predicted = 0;          ///< of them, in full
  bool is_tight = false;              ///< none leaves the margin: the places are those that fit
  bool interrupted = false;
};

/// At least what a rank of the pipeline holds: states, and activations of the micro-batches that
/// are in flight. The largest of all ranks.
Bytes least_memory(const megatron::Settings& settings);

/// How far it is.
struct MegatronProgress {
  std::size_t layouts = 0, predicted = 0;
  std::optional<Duration> best;  ///< step time of the best that leaves the margin, so far
  std::string best_text;         ///< "tensor=4,pipeline=2,context=1,shard=8, batch 1 x 16, ..."
};

struct MegatronWatcher {
  std::function<void(const MegatronProgress&)> on_progress = {};
  std::stop_token stop = {};  ///< the best so far is returned
};

/// Each layout with the least recomputation that fits (selective where attention is not fused,
/// full) is bounded (sim/planner/megatron/step_bounds.h); those are predicted in full, best first,
/// that may come to a place. A few layouts that are likely to fit come first, for those who wait
/// for an answer. Throws Error where no layout is left to weigh: what contradicts in the training
/// itself, else what does not divide.
MegatronAnswer plan_megatron(const MegatronQuestion& question, const MegatronWatcher& watcher = {});

}  // namespace shardscope::planner
