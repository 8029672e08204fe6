// The searches that a plan takes.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/planner/answer/basis.h"

namespace shardscope::planner {

/// What the searches found together.
struct Weighed {
  std::vector<Choice> choices;
  std::vector<std::size_t> ranked;  ///< of the choices, each search's best first
  std::vector<Outcome> tried;       ///< of the ranked ones, in their order
  std::vector<Outcome> others;      ///< the choices that are not ranked
  std::vector<Dropped> dropped;     ///< of the first search
  std::size_t in_groups = 0;        ///< further layouts, which were bounded and are no choices
  std::size_t simulated = 0;
  bool offloads = false;  ///< nothing fits without offload: choices that offload were weighed
  bool interrupted = false;
};

/// Numbers of ranks that are weighed: those asked for, else all; where costs count, also half of
/// them and so on, as long as they share the batch.
std::vector<int> worlds_of(const Inputs& inputs);

/// A search on each number of ranks, and where nothing fits one more with what offloads, as the
/// host's update is not timed. A kind is a strategy of a runtime. Throws as `choices_of` does.
Weighed weigh(const Basis& basis, const Watcher& watcher);

/// "fsdp2 full_shard", "native 1F1B pipeline", "torchtitan shard x tensor": what takes one place
/// only.
std::string kind_of(const Choice& choice);

}  // namespace shardscope::planner
