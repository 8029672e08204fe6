#include "sim/planner/contenders.h"

#include <set>

#include "sim/planner/estimate.h"

namespace shardscope::planner {

void Contenders::enter(Contender contender) {
  const auto place = std::upper_bound(all_.begin(), all_.end(), contender,
                                      [&](const Contender& a, const Contender& b) {
                                        return rules_.order_of(a) < rules_.order_of(b);
                                      });
  all_.insert(place, std::move(contender));
}

void Contenders::sort() {
  std::stable_sort(all_.begin(), all_.end(), [&](const Contender& a, const Contender& b) {
    return rules_.order_of(a) < rules_.order_of(b);
  });
}

std::vector<std::size_t> Contenders::leaders() const {
  std::vector<std::size_t> found;
  std::set<std::size_t> seen;
  for (std::size_t i = 0; i < all_.size() && found.size() < rules_.options.places; ++i)
    if (seen.insert(kinds_[all_[i].choice]).second) found.push_back(i);
  return found;
}

std::int64_t Contenders::least(const Contender& contender) const {
  const std::int64_t value = rules_.sought(contender.trial);
  if (!contender.is_estimate) return value;
  return scaled(value,
                1 / (1 + estimate_slack(choices_[contender.choice], rules_.inputs.training)));
}

Marks Contenders::marks() const {
  Marks result;
  if (!rules_.options.screen) return result;
  const std::vector<std::size_t> found = leaders();
  if (found.size() == rules_.options.places && !found.empty())
    result.last = rules_.sought(all_[found.back()].trial);
  for (const Contender& contender : all_)
    result.by_kind.try_emplace(kinds_[contender.choice], rules_.sought(contender.trial));
  return result;
}

}  // namespace shardscope::planner
