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
  std::string why;  ///< "an estimated 812 ms a step, ...", "needs at least 91.4 GiB of ..."
};

struct MegatronAnswer {
  std::vector<MegatronPlace> places;  ///< best first, each of its own mesh
  std::vector<MegatronLoser> losers;  ///< a mesh each, in order of enumeration
  std::size_t layouts = 0;            ///< that were weighed
  std::size_t predicted = 0;          ///< of them, in full
  bool is_tight = false;              ///< none leaves the margin: the places are those that fit
  bool interrupted = false;
};

/// The step time of a layout from two trainings of one and two layers a stage: it is nearly linear
/// in the layers of the longest stage, and linear in micro-batches behind the first ones, of which
/// few are played. `settings` must be without contradictions.
Duration estimated_step(const megatron::Settings& settings, const HardwareProfile& profile);

/// At least what a rank of the pipeline holds: states, and activations of the micro-batches that
/// are in flight. The largest of all ranks.
Bytes least_memory(const megatron::Settings& settings);

/// Each layout with the least recomputation that fits (selective where attention is not fused,
/// full) is estimated; those are predicted in full, best first, that may come to a place by an
/// estimate that is off by 5%. Throws Error where no layout is left to weigh: what contradicts in
/// the training itself, else what does not divide.
MegatronAnswer plan_megatron(const MegatronQuestion& question, const std::stop_token& stop = {});

}  // namespace shardscope::planner
