// Of a search: groups of layouts, and which of their members may still come to a place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/planner/layout_group.h"
#include "sim/planner/search.h"

namespace shardscope::planner {

class ClosedLayouts {
 public:
  struct Member {
    std::int64_t sought = 0;
    Bounds bounds;
    std::uint32_t group = 0, number = 0;
  };
  /// What the search asks of bounds.
  struct Ask {
    std::function<std::int64_t(const Bounds&)> sought;
    /// `sought` is of the bounds.
    std::function<bool(std::int64_t sought, const Bounds&, std::size_t kind)> may_win;
    std::function<std::size_t(const Choice&)> kind;
  };

  explicit ClosedLayouts(std::span<const LayoutGroup> groups)
      : groups_(groups), is_open_(groups.size(), false) {}

  bool empty() const { return groups_.empty(); }
  std::size_t members() const;
  Choice choice_of(const Member& member) const {
    return groups_[member.group].member(member.number);
  }

  /// Bounds the members of those groups whose bounds may win, and gives up to `most` members that
  /// may, too, the lowest first. Each is given once.
  std::vector<Member> next(std::size_t most, const TrialInputs& inputs,
                           const SearchOptions& options, const Ask& ask);

 private:
  std::size_t open_some(std::size_t first, const TrialInputs& inputs, const SearchOptions& options,
                        const Ask& ask);

  std::span<const LayoutGroup> groups_;
  std::vector<bool> is_open_;       // its members are bounded
  std::vector<Bounds> bounds_;      // by group
  std::vector<std::size_t> kinds_;  // by group
  std::vector<Member> closed_;      // of open groups, that were not given yet: the lowest first
};

}  // namespace shardscope::planner
