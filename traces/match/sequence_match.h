// Two sequences of operations paired: first what agrees, then what is left between by kind.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "traces/match/alignment.h"
#include "traces/match/pair_counts.h"

namespace shardscope {

/// What is compared: places in the predicted sequence and in the profiled one.
struct SequenceRules {
  using Test = std::function<bool(std::size_t predicted, std::size_t profiled)>;

  std::size_t predicted = 0, profiled = 0;  ///< lengths
  Test agrees;                              ///< in all that the trace says
  Test alike;                               ///< in kind; all that agree are
  Test says_all;  ///< of two that agree: the trace says all there is to say
};

/// Pairs, ascending in both.
struct SequenceMatch {
  struct Pair {
    AlignedPair places;
    Confidence confidence = Confidence::all_fields;
    bool operator==(const Pair&) const = default;
  };
  std::vector<Pair> pairs;
  PairCounts counts;
};

SequenceMatch match_sequences(const SequenceRules& rules);

/// Places of either sequence that are in no pair, ascending.
struct LeftOver {
  std::vector<std::size_t> predicted, profiled;
};
LeftOver left_over(const SequenceMatch& match);

}  // namespace shardscope
