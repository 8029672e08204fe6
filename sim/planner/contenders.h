// Of a search: the choices that may come to a place, best first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/planner/search_rules.h"

namespace shardscope::planner {

/// What a choice has to reach: the last place, and the best of its own kind.
struct Marks {
  std::optional<std::int64_t> last;
  std::map<std::size_t, std::int64_t> by_kind;

  bool reached_by(std::int64_t value, std::size_t kind) const {
    if (last && value > *last) return false;
    const auto own = by_kind.find(kind);
    return own == by_kind.end() || value <= own->second;
  }
};

/// `kinds`: by choice. Rules, kinds and choices must outlive it.
class Contenders {
 public:
  Contenders(const SearchRules& rules, const std::vector<std::size_t>& kinds,
             const Choices& choices)
      : rules_(rules), kinds_(kinds), choices_(choices) {}

  bool empty() const { return all_.empty(); }
  std::size_t size() const { return all_.size(); }
  Contender& operator[](std::size_t place) { return all_[place]; }
  const Contender& operator[](std::size_t place) const { return all_[place]; }
  const Contender& front() const { return all_.front(); }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

  void enter(Contender contender);
  /// After figures of some were changed.
  void sort();
  template <class Unwanted>
  std::size_t erase_if(const Unwanted& unwanted) {
    return std::erase_if(all_, unwanted);
  }
  template <class First>
  void move_to_front(const First& first) {
    std::stable_partition(all_.begin(), all_.end(), first);
  }

  /// The best of each kind, best first, as many as there are places.
  std::vector<std::size_t> leaders() const;
  Marks marks() const;
  /// The least that a trial may come to; the contender may be an estimate.
  std::int64_t least(const Contender& contender) const;

 private:
  const SearchRules& rules_;
  const std::vector<std::size_t>& kinds_;
  const Choices& choices_;
  std::vector<Contender> all_;
};

}  // namespace shardscope::planner
