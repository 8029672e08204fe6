#include "traces/match/sequence_match.h"

namespace shardscope {
namespace {

class Matcher {
 public:
  explicit Matcher(const SequenceRules& rules) : rules_(rules) {}

  SequenceMatch run() {
    match_.counts = {.predicted = static_cast<std::int64_t>(rules_.predicted),
                     .profiled = static_cast<std::int64_t>(rules_.profiled)};
    AlignedPair from;
    for (const AlignedPair& pair : align(rules_.predicted, rules_.profiled, rules_.agrees)) {
      pair_alike(from, pair);
      add(pair, rules_.says_all(pair.first, pair.second) ? Confidence::all_fields
                                                         : Confidence::known_fields);
      from = {pair.first + 1, pair.second + 1};
    }
    pair_alike(from, {static_cast<std::uint32_t>(rules_.predicted),
                      static_cast<std::uint32_t>(rules_.profiled)});
    return std::move(match_);
  }

 private:
  void add(AlignedPair pair, Confidence confidence) {
    match_.pairs.push_back({pair, confidence});
    match_.counts.count(confidence);
  }

  void pair_alike(AlignedPair from, AlignedPair to) {
    for (const AlignedPair& pair :
         align(to.first - from.first, to.second - from.second, [&](std::size_t i, std::size_t j) {
           return rules_.alike(from.first + i, from.second + j);
         }))
      add({from.first + pair.first, from.second + pair.second}, Confidence::order_and_kind);
  }

  const SequenceRules& rules_;
  SequenceMatch match_;
};

std::vector<std::size_t> missing(std::int64_t count, const SequenceMatch& match,
                                 std::uint32_t AlignedPair::*side) {
  std::vector<std::size_t> places;
  std::size_t next = 0;
  for (const SequenceMatch::Pair& pair : match.pairs) {
    for (; next < pair.places.*side; ++next) places.push_back(next);
    next = pair.places.*side + std::size_t{1};
  }
  for (; next < static_cast<std::size_t>(count); ++next) places.push_back(next);
  return places;
}

}  // namespace

SequenceMatch match_sequences(const SequenceRules& rules) { return Matcher(rules).run(); }

LeftOver left_over(const SequenceMatch& match) {
  return {.predicted = missing(match.counts.predicted, match, &AlignedPair::first),
          .profiled = missing(match.counts.profiled, match, &AlignedPair::second)};
}

}  // namespace shardscope
