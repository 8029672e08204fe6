// What a choice hangs on: what would make it run out of memory, and what its step time follows.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "sim/planner/answer/candidate.h"

namespace shardscope::planner {

/// What a phase of the run besides training needs of a device.
struct PhaseNeed {
  std::string phase;  ///< "evaluate", "save", "save_optimizer"
  Bytes needed;       ///< with what lies outside
  bool fits = true;
};

/// How much of the step time a group of constants makes: 10% faster ones save a tenth of it.
struct TimeShare {
  CostGroup group = CostGroup::products;
  double share = 0;
};

struct Limits {
  /// Tokens of the longest sequence tried that fits, with nothing left free: up to twice those that
  /// were asked for.
  std::optional<std::int64_t> longest;
  bool longer_untried = false;      ///< that one is the longest that was tried
  std::optional<double> held_more;  ///< the allocator may hold so much more than predicted: a share
  std::vector<PhaseNeed> phases;    ///< of PyTorch's runtimes, as far as they are known
  std::vector<TimeShare> time;      ///< the largest first
};

/// Of a candidate that fits. A stop leaves out what comes behind it.
Limits limits_of(const Candidate& candidate, const Basis& basis, const std::stop_token& stop);

/// From how much the step time moves with each group's spread. Those below a hundredth are left
/// out. Example: 6% where products are 10% slower: they make 60% of it.
std::vector<TimeShare> time_shares(const StepTimeMoves& moves, const CostSpreads& spreads);

/// The longest of `asked`, 9/8 of it, ... 16/8 that fits, and no more than `most`; `asked` fits.
/// Fewer than five are tried: what fits is taken to fit with less.
std::int64_t longest_that_fits(std::int64_t asked, std::int64_t most,
                               const std::function<bool(std::int64_t)>& fits);

}  // namespace shardscope::planner
