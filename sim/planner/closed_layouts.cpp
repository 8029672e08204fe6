#include "sim/planner/closed_layouts.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace shardscope::planner {

std::size_t ClosedLayouts::members() const {
  return std::transform_reduce(groups_.begin(), groups_.end(), std::size_t{0}, std::plus<>(),
                               [](const LayoutGroup& group) { return group.size(); });
}

std::vector<ClosedLayouts::Member> ClosedLayouts::next(std::size_t most, const TrialInputs& inputs,
                                                       const SearchOptions& options,
                                                       const Ask& ask) {
  if (bounds_.empty()) {
    bounds_ = group_floors(groups_, inputs, options.threads, options.stop);
    for (const LayoutGroup& group : groups_) kinds_.push_back(ask.kind(group.common));
  }
  const std::size_t known = closed_.size();
  for (std::size_t first = 0; first < groups_.size() && !options.stop.stop_requested();)
    first = open_some(first, inputs, options, ask);
  if (options.stop.stop_requested()) return {};
  if (closed_.size() > known)
    std::ranges::sort(closed_, {}, [](const Member& member) {
      return std::tuple(member.sought, member.group, member.number);
    });
  std::vector<Member> found;
  std::erase_if(closed_, [&](const Member& member) {
    if (found.size() == most || !ask.may_win(member.sought, member.bounds, kinds_[member.group]))
      return false;
    found.push_back(member);
    return true;
  });
  return found;
}

/// From `first` on, as many as are bounded at a time; the number of the next one.
std::size_t ClosedLayouts::open_some(std::size_t first, const TrialInputs& inputs,
                                     const SearchOptions& options, const Ask& ask) {
  constexpr std::size_t at_once = 8192;
  std::vector<Member> members;
  std::vector<Choice> choices;
  for (; first < groups_.size() && members.size() < at_once; ++first) {
    if (is_open_[first] || !ask.may_win(ask.sought(bounds_[first]), bounds_[first], kinds_[first]))
      continue;
    is_open_[first] = true;
    for (std::size_t number = 0; number < groups_[first].size(); ++number) {
      members.push_back({.group = static_cast<std::uint32_t>(first),
                         .number = static_cast<std::uint32_t>(number)});
      choices.push_back(groups_[first].member(number));
    }
  }
  const std::vector<Bounds> bounds = floors_of(choices, inputs, options.threads, options.stop);
  for (std::size_t i = 0; i < members.size(); ++i) {
    members[i].bounds = bounds[i];
    members[i].sought = ask.sought(bounds[i]);
    closed_.push_back(members[i]);
  }
  return first;
}

}  // namespace shardscope::planner
