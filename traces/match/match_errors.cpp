#include "traces/match/match_errors.h"

#include <map>
#include <utility>

#include "core/base/median.h"

namespace shardscope {
namespace {

using Times = std::vector<SideBySide<Duration>>;  // one a step

SideBySide<Duration> lower_medians(const Times& times) {
  std::vector<Duration> predicted, profiled;
  for (const SideBySide<Duration>& time : times) {
    predicted.push_back(time.predicted.value);
    profiled.push_back(time.profiled.value);
  }
  return {{lower_median(std::move(predicted))}, {lower_median(std::move(profiled))}};
}

void add(SideBySide<Duration>& sum, Duration predicted, Duration profiled) {
  sum.predicted.value += predicted;
  sum.profiled.value += profiled;
}

/// What no unit claims stands behind all units.
using UnitKey = std::pair<std::size_t, std::string>;
UnitKey key_of(const RankMatch& match, std::optional<std::size_t> unit) {
  return unit ? UnitKey{*unit, match.units[*unit].name} : UnitKey{SIZE_MAX, ""};
}

class Sums {
 public:
  void add_rank(const MatchedRank& rank) {
    const FactsTable facts(*rank.predicted);
    const std::size_t first = steps_.size();
    for (const StepPair& pair : rank.match->steps) {
      Step& step = steps_.emplace_back();
      add(step.step, pair.predicted_time, pair.profiled.window.length());
      add(step.unmatched, pair.predicted_compute, pair.profiled_compute);
    }
    for (const ComputePair& pair : rank.match->compute)
      add_compute(steps_[first + pair.step], *rank.match, pair, facts.find(pair.operation));
    for (const CollectivePair& pair : rank.match->collectives) {
      if (!pair.profiled) continue;
      Step& step = steps_[first + pair.step];
      add(step.communication, pair.predicted, *pair.profiled);
      add(step.by_unit[key_of(*rank.match, pair.unit)].communication, pair.predicted,
          *pair.profiled);
    }
  }

  MatchErrors medians() const {
    MatchErrors errors{.step = of(&Step::step),
                       .compute = of(&Step::compute),
                       .copy = of(&Step::copy),
                       .communication = of(&Step::communication),
                       .unmatched = of(&Step::unmatched)};
    std::map<UnitKey, std::pair<Times, Times>> units;
    for (const Step& step : steps_) {
      for (const auto& [key, times] : step.by_unit) {
        units[key].first.push_back(times.compute);
        units[key].second.push_back(times.communication);
      }
    }
    for (const auto& [key, times] : units) {
      UnitErrors unit{.compute = lower_medians(times.first),
                      .communication = lower_medians(times.second)};
      if (key.first != SIZE_MAX) unit.unit = key.second;
      errors.by_unit.push_back(std::move(unit));
    }
    return errors;
  }

 private:
  struct Unit {
    SideBySide<Duration> compute, communication;
  };
  struct Step {
    SideBySide<Duration> step, compute, copy, communication, unmatched;
    std::map<UnitKey, Unit> by_unit;
  };

  static void add_compute(Step& step, const RankMatch& match, const ComputePair& pair,
                          const OperationFacts* facts) {
    const bool is_copy = facts != nullptr && facts->kind == OperationKind::copy;
    add(is_copy ? step.copy : step.compute, pair.predicted, pair.profiled);
    add(step.unmatched, {-pair.predicted.ns}, {-pair.profiled.ns});
    add(step.by_unit[key_of(match, pair.unit)].compute, pair.predicted, pair.profiled);
  }

  SideBySide<Duration> of(SideBySide<Duration> Step::*what) const {
    Times times;
    for (const Step& step : steps_) times.push_back(step.*what);
    return lower_medians(times);
  }

  std::vector<Step> steps_;
};

}  // namespace

MatchErrors match_errors(const std::vector<MatchedRank>& ranks) {
  Sums sums;
  for (const MatchedRank& rank : ranks) sums.add_rank(rank);
  return sums.medians();
}

}  // namespace shardscope
