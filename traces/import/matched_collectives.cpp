#include "traces/import/matched_collectives.h"
#include "core/base/median.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace shardscope {
namespace {

constexpr std::int64_t max_shift = 16;  ///< calls by which profiles may begin apart

/// Sums that stay at the ends of the range, for the times that a damaged file may hold.
std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (!__builtin_add_overflow(a, b, &result)) return result;
  return b > 0 ? std::numeric_limits<std::int64_t>::max()
               : std::numeric_limits<std::int64_t>::min();
}
std::int64_t difference(std::int64_t a, std::int64_t b) {
  return b == std::numeric_limits<std::int64_t>::min() ? std::numeric_limits<std::int64_t>::max()
                                                       : sum(a, -b);
}

bool is_between_two(const ImportedCollective& call) {
  return call.kind == OperationKind::send || call.kind == OperationKind::receive;
}

/// All ranks leave it together.
bool ends_together(const ImportedCollective& call) {
  return call.kind == OperationKind::all_reduce || call.kind == OperationKind::all_gather ||
         call.kind == OperationKind::reduce_scatter || call.kind == OperationKind::all_to_all;
}

/// Do two ranks' calls look like one collective: ranks of an all-to-all may differ in size.
bool agree(const ImportedCollective& a, const ImportedCollective& b) {
  if (a.kind != b.kind || a.dtype != b.dtype) return false;
  if (!a.kind) return a.name == b.name;
  if (*a.kind == OperationKind::all_to_all) return true;
  return a.elements_in == b.elements_in && a.elements_out == b.elements_out;
}

/// A rank's calls within one group.
struct GroupCalls {
  std::size_t rank = 0;  ///< index into the ranks
  std::vector<const ImportedCollective*> calls;
};

struct Group {
  std::string name;
  std::vector<GroupCalls> ranks;

  bool has_sequence() const {
    return std::all_of(ranks.begin(), ranks.end(), [](const GroupCalls& rank) {
      return std::all_of(rank.calls.begin(), rank.calls.end(),
                         [](const auto* call) { return call->sequence.has_value(); });
    });
  }
};

/// Places that `b` must be moved by so that most of its calls agree with those of `a`; of equally
/// good ones the smallest.
std::int64_t shift_between(const GroupCalls& a, const GroupCalls& b) {
  const auto matches = [&](std::int64_t shift) {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < a.calls.size(); ++i) {
      const std::int64_t other = static_cast<std::int64_t>(i) + shift;
      if (other < 0 || other >= static_cast<std::int64_t>(b.calls.size())) continue;
      count += agree(*a.calls[i], *b.calls[static_cast<std::size_t>(other)]);
    }
    return count;
  };
  std::int64_t best = 0, most = matches(0);
  for (std::int64_t size = 1; size <= max_shift; ++size) {
    for (const std::int64_t shift : {size, -size}) {
      const std::int64_t count = matches(shift);
      if (count > most) std::tie(best, most) = std::tuple(shift, count);
    }
  }
  return best;
}

/// Where a call stands in its group: its sequence number, or its number among the calls; then the
/// number among calls of the same.
using Place = std::pair<std::int64_t, std::int64_t>;

std::vector<Place> places_of(const GroupCalls& rank, bool has_sequence, std::int64_t shift) {
  std::vector<Place> places;
  std::map<std::int64_t, std::int64_t> seen;
  for (std::size_t i = 0; i < rank.calls.size(); ++i) {
    const std::int64_t place =
        has_sequence ? *rank.calls[i]->sequence : static_cast<std::int64_t>(i) - shift;
    places.push_back({place, seen[place]++});
  }
  return places;
}

/// One collective's calls, with the index of their rank.
using Parts = std::vector<std::pair<std::size_t, const ImportedCollective*>>;

std::map<Place, Parts> placed(const Group& group) {
  const auto longest = std::max_element(
      group.ranks.begin(), group.ranks.end(),
      [](const auto& a, const auto& b) { return a.calls.size() < b.calls.size(); });
  const bool has_sequence = group.has_sequence();
  std::map<Place, Parts> places;
  for (const GroupCalls& rank : group.ranks) {
    const std::int64_t shift = has_sequence ? 0 : shift_between(*longest, rank);
    const std::vector<Place> of_rank = places_of(rank, has_sequence, shift);
    for (std::size_t i = 0; i < of_rank.size(); ++i)
      places[of_rank[i]].emplace_back(rank.rank, rank.calls[i]);
  }
  return places;
}

class Matching {
 public:
  explicit Matching(const std::vector<RankCalls>& ranks) : ranks_(ranks) {
    for (const RankCalls& rank : ranks) result_.ranks.push_back({.rank = rank.rank});
  }

  MatchedCollectives run() {
    for (const Group& group : groups()) match(group);
    set_clocks();
    for (MatchedCollective& collective : result_.collectives) account_for(collective);
    return std::move(result_);
  }

 private:
  std::vector<Group> groups() {
    std::vector<Group> groups;
    std::map<std::string, std::size_t> index;
    std::int64_t between_two = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      for (const ImportedCollective& call : ranks_[r].collectives) {
        between_two += is_between_two(call);
        if (is_between_two(call)) continue;
        const auto [at, is_new] =
            index.try_emplace(call.group + '\n' + call.group_ranks, groups.size());
        if (is_new) groups.push_back({.name = call.group, .ranks = {}});
        std::vector<GroupCalls>& in = groups[at->second].ranks;
        if (in.empty() || in.back().rank != r) in.push_back({.rank = r, .calls = {}});
        in.back().calls.push_back(&call);
      }
    }
    if (between_two > 0) say(fmt::format("{} sends and receives, of two ranks each", between_two));
    return groups;
  }

  void say(std::string text) { result_.not_matched.push_back(std::move(text)); }

  void match(const Group& group) {
    const std::string name = group.name.empty() ? "of a group not named" : "of group " + group.name;
    if (group.ranks.size() < 2) {
      const GroupCalls& only = group.ranks.front();
      return say(fmt::format("{} calls {}: only rank {} is here", only.calls.size(), name,
                             ranks_[only.rank].rank));
    }
    std::int64_t alone = 0, different = 0, call = 0;
    for (const auto& [place, parts] : placed(group)) {
      const bool is_whole = parts.size() == group.ranks.size();
      const bool is_same = std::all_of(parts.begin(), parts.end(), [&](const auto& part) {
        return agree(*parts.front().second, *part.second);
      });
      alone += !is_whole;
      different += is_whole && !is_same;
      if (is_whole && is_same) add(call, parts);
      ++call;
    }
    if (alone > 0) say(fmt::format("{} calls {}: not all its ranks made them", alone, name));
    if (different > 0)
      say(fmt::format("{} calls {}: its ranks differ in kind, size or type", different, name));
  }

  void add(std::int64_t call, const Parts& parts) {
    MatchedCollective matched{.call = call, .what = *parts.front().second, .parts = {}};
    for (const auto& [rank, of_rank] : parts) {
      const std::int64_t shift = difference(ranks_[rank].base_ns, ranks_.front().base_ns);
      // The rank is an index until the end.
      matched.parts.push_back({.rank = static_cast<std::int64_t>(rank),
                               .start = {sum(of_rank->start.ns, shift)},
                               .duration = of_rank->duration});
    }
    result_.collectives.push_back(std::move(matched));
  }

  /// Differences of ends between `rank` and ranks whose clocks are set.
  std::vector<std::int64_t> differences_of(std::size_t rank, const std::set<std::size_t>& set) {
    std::vector<std::int64_t> differences;
    for (const MatchedCollective& collective : result_.collectives) {
      if (!ends_together(collective.what)) continue;
      const CollectivePart *own = nullptr, *other = nullptr;
      for (const CollectivePart& part : collective.parts) {
        const auto index = static_cast<std::size_t>(part.rank);
        if (index == rank) own = &part;
        if (other == nullptr && set.contains(index)) other = &part;
      }
      if (own == nullptr || other == nullptr) continue;
      const RankWaits& known = result_.ranks[static_cast<std::size_t>(other->rank)];
      const std::int64_t end = sum(other->start.ns, other->duration.ns);
      differences.push_back(
          difference(sum(own->start.ns, own->duration.ns), difference(end, known.clock_offset.ns)));
    }
    return differences;
  }

  void set_clocks() {
    std::set<std::size_t> set;
    for (std::size_t next = 0; next < ranks_.size(); ++next) {
      if (!ranks_[next].are_transfers || set.contains(next)) continue;
      set.insert(next);
      for (bool is_found = true; is_found;) {
        is_found = false;
        for (std::size_t rank = next + 1; rank < ranks_.size(); ++rank) {
          if (set.contains(rank) || !ranks_[rank].are_transfers) continue;
          const std::vector<std::int64_t> differences = differences_of(rank, set);
          if (differences.empty()) continue;
          result_.ranks[rank].clock_offset = {lower_median(differences)};
          set.insert(rank);
          is_found = true;
        }
      }
    }
  }

  void account_for(MatchedCollective& collective) {
    const auto index = [](const CollectivePart& part) {
      return static_cast<std::size_t>(part.rank);
    };
    for (CollectivePart& part : collective.parts)
      part.start.ns = difference(part.start.ns, result_.ranks[index(part)].clock_offset.ns);
    const auto [first, last] =
        std::minmax_element(collective.parts.begin(), collective.parts.end(),
                            [](const auto& a, const auto& b) { return a.start < b.start; });
    const Duration begin = last->start;
    RankWaits& straggler = result_.ranks[index(*last)];
    collective.start_skew = {difference(begin.ns, first->start.ns)};
    collective.last_rank = straggler.rank;
    ++straggler.times_last;
    for (CollectivePart& part : collective.parts) {
      RankWaits& rank = result_.ranks[index(part)];
      part.wait = {std::min(difference(begin.ns, part.start.ns), part.duration.ns)};
      rank.waited.ns = sum(rank.waited.ns, part.wait.ns);
      straggler.let_others_wait.ns = sum(straggler.let_others_wait.ns, part.wait.ns);
      ++rank.collectives;
      part.rank = rank.rank;
    }
  }

  const std::vector<RankCalls>& ranks_;
  MatchedCollectives result_;
};

}  // namespace

MatchedCollectives matched_collectives(const std::vector<RankCalls>& ranks) {
  std::set<std::int64_t> numbers;
  for (const RankCalls& rank : ranks) numbers.insert(rank.rank);
  if (numbers.size() == ranks.size()) return Matching(ranks).run();
  return {.collectives = {},
          .ranks = {},
          .not_matched = {"all collectives: the files do not name each rank once"}};
}

}  // namespace shardscope
