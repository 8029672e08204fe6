// Which timings a fit sees, and their medians.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "core/base/median.h"
#include "sim/fit/observations.h"

namespace shardscope {

enum class Part { seen, held_out };

/// Steps by turns: the first is seen, the second held out, and so on; a single one is both.
class Parting {
 public:
  template <class Subject>
  void add(const Observed<Subject>& observed) {
    for (const Timing& timing : observed.timings) steps_.insert(timing.step);
  }

  bool has_both() const { return steps_.size() > 1; }
  bool is_in(Part part, int step) const {
    if (!has_both()) return true;
    const auto place = std::distance(steps_.begin(), steps_.find(step));
    return (place % 2 == 0) == (part == Part::seen);
  }

 private:
  std::set<int> steps_;
};

/// One subject's calls in a part: none where it was not called there.
struct Median {
  Duration time;
  std::size_t calls = 0;
};

/// By subject.
template <class Subject>
std::vector<Median> medians(const Observed<Subject>& observed, const Parting& parting, Part part) {
  std::vector<std::vector<Duration>> times(observed.subjects.size());
  for (const Timing& timing : observed.timings)
    if (parting.is_in(part, timing.step)) times[timing.subject].push_back(timing.time);
  std::vector<Median> result(times.size());
  for (std::size_t i = 0; i < times.size(); ++i)
    if (!times[i].empty()) result[i] = {median(times[i]), times[i].size()};
  return result;
}

}  // namespace shardscope
