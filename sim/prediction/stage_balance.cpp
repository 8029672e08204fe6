#include "sim/prediction/stage_balance.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

namespace shardscope {
namespace {

std::vector<double> dearest_first(std::vector<double> costs) {
  std::ranges::sort(costs, std::greater());
  return costs;
}

/// In the order in which they count.
std::vector<double> counting(const PipelineCosts& costs) {
  std::vector<double> all{costs.whole};
  std::ranges::copy(dearest_first(costs.ranks), std::back_inserter(all));
  return all;
}

/// Costs that differ by less are the same: sums of many operations in another order.
bool is_less(const PipelineCosts& costs, const PipelineCosts& others) {
  constexpr double same = 1e-9;
  const std::vector<double> own = counting(costs), other = counting(others);
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i] < other[i] * (1 - same)) return true;
    if (own[i] > other[i] * (1 + same)) return false;
  }
  return false;
}

class Balance {
 public:
  Balance(std::vector<int> layers, const std::vector<int>& rank_of_stage,
          const CostsOfLayers& costs)
      : layers_(std::move(layers)), rank_of_stage_(rank_of_stage), costs_of_(costs) {}

  std::vector<int> found() {
    costs_ = costs_of_(layers_);
    while (improve()) {
    }
    return std::move(layers_);
  }

 private:
  /// Tries every rank as the one that takes a layer; the best of them stays.
  bool improve() {
    const std::vector<double>& ranks = costs_.ranks;
    const auto dearest = static_cast<int>(std::ranges::max_element(ranks) - ranks.begin());
    const std::optional<std::size_t> giver = most_layers(dearest);
    if (!giver) return false;
    std::optional<std::pair<std::vector<int>, PipelineCosts>> best;
    for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
      if (rank == dearest) continue;
      std::vector<int> changed = layers_;
      --changed[*giver];
      ++changed[fewest_layers(rank)];
      PipelineCosts costs = costs_of_(changed);
      if (is_less(costs, best ? best->second : costs_))
        best.emplace(std::move(changed), std::move(costs));
    }
    if (!best) return false;
    std::tie(layers_, costs_) = std::move(*best);
    return true;
  }

  int least_layers(std::size_t stage) const {
    return stage == 0 || stage + 1 == layers_.size() ? 0 : 1;
  }

  std::optional<std::size_t> most_layers(int rank) const {
    std::optional<std::size_t> most;
    for (std::size_t stage = 0; stage < layers_.size(); ++stage) {
      if (rank_of_stage_[stage] != rank || layers_[stage] <= least_layers(stage)) continue;
      if (!most || layers_[stage] > layers_[*most]) most = stage;
    }
    return most;
  }

  std::size_t fewest_layers(int rank) const {
    std::optional<std::size_t> fewest;
    for (std::size_t stage = 0; stage < layers_.size(); ++stage) {
      if (rank_of_stage_[stage] != rank) continue;
      if (!fewest || layers_[stage] < layers_[*fewest]) fewest = stage;
    }
    return fewest.value_or(0);
  }

  std::vector<int> layers_;
  const std::vector<int>& rank_of_stage_;
  const CostsOfLayers& costs_of_;
  PipelineCosts costs_;
};

}  // namespace

std::vector<int> balanced_stages(std::vector<int> layers, const std::vector<int>& rank_of_stage,
                                 const CostsOfLayers& costs) {
  return Balance(std::move(layers), rank_of_stage, costs).found();
}

}  // namespace shardscope
