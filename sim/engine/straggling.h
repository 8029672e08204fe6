// How long ranks wait for the last of them where they meet.
#pragma once

#include <vector>

#include "core/base/quantities.h"
#include "core/schedule/samples.h"

namespace shardscope {

/// What one rank knows of how far apart the ranks are: nothing, or what was measured. Ranks meet
/// where the thread that computes waits for a collective.
class Straggling {
 public:
  /// `samples` by compute, shortest first; none: ranks are always in step.
  explicit Straggling(std::vector<StragglingSample> samples = {}) : samples_(std::move(samples)) {}

  void computed(Duration time) { since_they_met_ += time; }
  Duration since_they_met() const { return since_they_met_; }
  void meet() { since_they_met_ = {}; }

  /// What the last rank needs longer than this one to come to a collective now: between samples
  /// straight in log-log over the compute since they met, below and above them in proportion to it.
  Duration wait() const;

 private:
  std::vector<StragglingSample> samples_;
  Duration since_they_met_;
};

}  // namespace shardscope
