// Ranks: the members of a group, without a list where they are evenly spaced.
#pragma once

#include <compare>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <vector>

namespace shardscope {

/// Global ranks in a group's order. Evenly spaced ones, as those of every mesh are, take no memory
/// of their own: a world of a million costs as much as one of two.
class Ranks {
 public:
  Ranks() = default;
  Ranks(std::vector<int> ranks);  // NOLINT: a list is what most code has
  Ranks(std::initializer_list<int> ranks) : Ranks(std::vector<int>(ranks)) {}
  /// first, first + stride, .. `count` of them. Example: (3, 2, 4) is 3, 5, 7, 9.
  static Ranks spaced(int first, int stride, std::size_t count);
  /// 0 .. count - 1.
  static Ranks up_to(int count) { return spaced(0, 1, static_cast<std::size_t>(count)); }

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  int operator[](std::size_t place) const {
    return listed_.empty() ? first_ + static_cast<int>(place) * stride_ : listed_[place];
  }
  int front() const { return (*this)[0]; }
  int back() const { return (*this)[count_ - 1]; }
  /// Distance of neighbours; none where they are not evenly spaced. Of one or no rank: 1.
  std::optional<int> stride() const;
  /// Where `rank` stands among them.
  std::optional<std::size_t> place_of(int rank) const;
  /// `count` of them from place `from` on.
  Ranks part(std::size_t from, std::size_t count) const;
  std::vector<int> list() const { return {begin(), end()}; }

  auto operator<=>(const Ranks&) const = default;
  bool operator==(const Ranks&) const = default;

  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = int;
    using difference_type = std::ptrdiff_t;
    using pointer = const int*;
    using reference = int;

    Iterator() = default;
    Iterator(const Ranks& ranks, std::size_t place) : ranks_(&ranks), place_(place) {}
    int operator*() const { return (*ranks_)[place_]; }
    Iterator& operator++() { return ++place_, *this; }
    Iterator operator++(int) { return {*ranks_, place_++}; }
    bool operator==(const Iterator& other) const { return place_ == other.place_; }

   private:
    const Ranks* ranks_ = nullptr;
    std::size_t place_ = 0;
  };
  using value_type = int;
  using const_iterator = Iterator;
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, count_}; }

 private:
  int first_ = 0;
  int stride_ = 1;
  std::size_t count_ = 0;
  std::vector<int> listed_;  ///< all of them, where they are not evenly spaced
};

}  // namespace shardscope
