#include "sim/engine/meetings.h"

#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <utility>

namespace shardscope {
namespace {

/// What is counted for itself: a group's collectives, its transfers of one direction.
struct Line {
  std::string group;
  std::vector<std::size_t> members;  ///< which of the schedules, ascending
  std::size_t sender = 0;            ///< of a transfer: schedule, and 1 more; else 0
  auto operator<=>(const Line&) const = default;
};

class LineFinder {
 public:
  explicit LineFinder(std::span<const Schedule> schedules) : schedules_(schedules) {
    for (std::size_t i = 0; i < schedules.size(); ++i) place_of_rank_[schedules[i].rank] = i;
  }

  /// None where no other rank that is played takes part, or the group's ranks are not known: a
  /// recording then names the first ranks of the job.
  std::optional<Line> of(std::size_t place, const Operation& op) const {
    if (!is_collective(op.kind)) return std::nullopt;
    const Schedule& schedule = schedules_[place];
    const Collective& collective = schedule.collectives[op.detail];
    const Group& group = schedule.groups[collective.group.value];
    Line line{.group = group.name, .members = members_of(place, collective, group)};
    if (line.members.size() < 2) return std::nullopt;
    const bool first = line.members.front() == place;
    const std::size_t other = first ? line.members.back() : line.members.front();
    if (op.kind == OperationKind::send) line.sender = place + 1;
    if (op.kind == OperationKind::receive) line.sender = other + 1;
    return line;
  }

 private:
  std::vector<std::size_t> members_of(std::size_t place, const Collective& collective,
                                      const Group& group) const {
    if (collective.peer >= 0) {
      const auto peer = place_of_rank_.find(collective.peer);
      if (peer == place_of_rank_.end() || peer->second == place) return {};
      return {std::min(place, peer->second), std::max(place, peer->second)};
    }
    if (!group.ranks.place_of(schedules_[place].rank)) return {};
    std::vector<std::size_t> members;
    for (const auto& [rank, other] : place_of_rank_)
      if (group.ranks.place_of(rank)) members.push_back(other);
    std::ranges::sort(members);
    return members;
  }

  std::span<const Schedule> schedules_;
  std::map<int, std::size_t> place_of_rank_;
};

}  // namespace

std::vector<RankMeeting> find_meetings(std::span<const Schedule> schedules,
                                       std::span<const IndexRange> operations) {
  const LineFinder finder(schedules);
  std::map<Line, std::vector<RankMeeting>> found;
  for (std::size_t place = 0; place < schedules.size(); ++place) {
    std::map<Line, std::size_t> met;
    for (std::uint32_t op = operations[place].begin; op < operations[place].end; ++op) {
      const std::optional<Line> line = finder.of(place, schedules[place].operations[op]);
      if (!line) continue;
      std::vector<RankMeeting>& of_line = found[*line];
      const std::size_t nth = met[*line]++;
      if (nth == of_line.size())
        of_line.push_back({.group = line->group, .nth = nth, .members = line->members.size()});
      of_line[nth].present.push_back({place, op});
    }
  }
  std::vector<RankMeeting> meetings;
  for (auto& [line, of_line] : found) std::ranges::move(of_line, std::back_inserter(meetings));
  return meetings;
}

}  // namespace shardscope
