#include "backend/watch/diagnosis.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "backend/base/parse_integer.h"

namespace shardscope {
namespace {

using Reports = std::vector<std::optional<RankStatement>>;

constexpr std::array<std::pair<TroubleKind, std::string_view>, 5> kind_names{
    {{TroubleKind::late, "late"},
     {TroubleKind::queued, "queued"},
     {TroubleKind::lost, "lost"},
     {TroubleKind::failed, "failed"},
     {TroubleKind::cut_off, "cut_off"}}};

/// A line for people, also where a thousand ranks all do something else.
constexpr std::size_t longest_doing = 4000;

const RankStatement* report_at(const Reports& reports, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  return rank >= 0 && index < reports.size() && reports[index] ? &*reports[index] : nullptr;
}

const FlightSnapshot::Group* group_of(const RankStatement& report, const std::string& name) {
  const auto found = std::ranges::find(report.groups, name, &FlightSnapshot::Group::name);
  return found == report.groups.end() ? nullptr : &*found;
}

std::vector<int> silent_ranks(const Reports& reports) {
  std::vector<int> silent;
  for (std::size_t rank = 0; rank < reports.size(); ++rank)
    if (!reports[rank]) silent.push_back(static_cast<int>(rank));
  return silent;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", rank_ranges(ranks));
}

/// The first member that has made fewer calls of the group than `rank`, which waits in one.
std::optional<int> missing_member(const Reports& reports, int rank, const FlightEntry& entry) {
  const RankStatement& mine = *report_at(reports, rank);
  const FlightSnapshot::Group* group = group_of(mine, entry.group);
  if (group == nullptr) return std::nullopt;
  for (const int member : group->ranks) {
    const RankStatement* theirs = report_at(reports, member);
    const FlightSnapshot::Group* same = theirs ? group_of(*theirs, entry.group) : nullptr;
    if (theirs && (same == nullptr || same->calls < entry.call)) return member;
  }
  return std::nullopt;
}

/// Whom `rank` waits for; nothing where all are there.
std::optional<int> waits_for(const Reports& reports, int rank, const FlightEntry& entry) {
  if (entry.peer < 0) return missing_member(reports, rank, entry);
  const RankStatement* peer = report_at(reports, entry.peer);
  const bool meets = peer && peer->doing && peer->doing->peer == rank;
  return meets ? std::nullopt : std::optional(entry.peer);
}

/// The rank at the end of the chain of those that wait; nothing where it ends nowhere.
std::optional<int> origin_of_delay(const Reports& reports, int rank) {
  std::set<int> seen;
  while (seen.insert(rank).second) {
    const RankStatement* report = report_at(reports, rank);
    if (report == nullptr || !report->doing) return rank;
    const std::optional<int> next = waits_for(reports, rank, *report->doing);
    if (!next) return std::nullopt;
    rank = *next;
  }
  return std::nullopt;
}

std::string doing_text(const RankStatement* report, bool one) {
  if (report == nullptr) return one ? "gives no answer" : "give no answer";
  if (report->doing)
    return fmt::format("{} in {}", one ? "waits" : "wait", text_of(*report->doing));
  if (report->has_left) return one ? "has left the job" : "have left the job";
  const std::string none = fmt::format("{} in no collective", one ? "is" : "are");
  return report->last ? none + ", after " + text_of(*report->last) : none;
}

/// Ranks that do the same are told of together, in the order of the first of them.
std::string doing_text(const Reports& reports, bool asked) {
  std::map<std::string, std::vector<int>> ranks_of;
  std::vector<std::string> order;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (!asked && !reports[rank]) continue;
    const std::string what = doing_text(reports[rank] ? &*reports[rank] : nullptr, true);
    if (!ranks_of.contains(what)) order.push_back(what);
    ranks_of[what].push_back(static_cast<int>(rank));
  }
  std::string text;
  for (const std::string& what : order) {
    const std::vector<int>& ranks = ranks_of[what];
    const auto& first = reports[static_cast<std::size_t>(ranks.front())];
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", ranks_text(ranks),
                        doing_text(first ? &*first : nullptr, ranks.size() == 1));
  }
  if (text.size() <= longest_doing) return text;
  return text.substr(0, longest_doing) + "...";
}

/// All are in the call that takes too long.
std::string cause_of_stuck(const Reports& reports, int rank, double seconds) {
  const RankStatement* mine = report_at(reports, rank);
  for (std::size_t other = 0; mine && mine->doing && other < reports.size(); ++other) {
    const RankStatement* theirs = report_at(reports, static_cast<int>(other));
    if (theirs == nullptr || !theirs->doing) continue;
    const bool same_call =
        theirs->doing->group == mine->doing->group && theirs->doing->call == mine->doing->call;
    if (!same_call || mine->doing->peer >= 0) continue;
    if (theirs->doing->operation != mine->doing->operation ||
        theirs->doing->bytes != mine->doing->bytes)
      return fmt::format("ranks {} and {} make different calls", rank, other);
  }
  return fmt::format("all ranks entered the call, but no data moved within {} s", seconds);
}

Verdict judge_late(const Trouble& trouble, const Reports& reports, double seconds) {
  Verdict verdict;
  if (const std::vector<int> silent = silent_ranks(reports); !silent.empty()) {
    verdict.late = silent;
  } else if (const auto origin = origin_of_delay(reports, trouble.rank);
             origin && *origin != trouble.rank) {
    verdict.late = {*origin};
  }
  verdict.cause = verdict.late.empty() ? cause_of_stuck(reports, trouble.rank, seconds)
                                       : fmt::format("{} did not come within {} s",
                                                     ranks_text(verdict.late), seconds);
  return verdict;
}

}  // namespace

RankStatement report_of(const FlightSnapshot& snapshot) {
  RankStatement report{.doing = {}, .last = {}, .groups = snapshot.groups};
  if (const FlightEntry* doing = snapshot.under_way()) report.doing = *doing;
  if (const FlightEntry* last = snapshot.last_completed()) report.last = *last;
  return report;
}

std::string to_text(const Trouble& trouble) {
  const auto name =
      std::ranges::find(kind_names, trouble.kind, &decltype(kind_names)::value_type::first);
  return fmt::format("{} {} {}", name->second, trouble.rank, trouble.text);
}

std::optional<Trouble> parse_trouble(std::string_view text) {
  const std::size_t first = text.find(' ');
  const std::size_t second = first == text.npos ? first : text.find(' ', first + 1);
  if (second == text.npos) return std::nullopt;
  const auto kind = std::ranges::find(kind_names, text.substr(0, first),
                                      &decltype(kind_names)::value_type::second);
  const std::optional<int> rank = parse_integer(text.substr(first + 1, second - first - 1));
  if (kind == kind_names.end() || !rank) return std::nullopt;
  return Trouble{.kind = kind->first, .rank = *rank, .text = std::string(text.substr(second + 1))};
}

Verdict judge(const Trouble& trouble, const Reports& reports, std::chrono::milliseconds deadline) {
  Verdict verdict{.late = {trouble.rank}, .cause = {}, .doing = {}, .silent = {}, .answered = 0};
  switch (trouble.kind) {
    case TroubleKind::late:
      verdict = judge_late(trouble, reports, std::chrono::duration<double>(deadline).count());
      break;
    case TroubleKind::queued:
      verdict.late = silent_ranks(reports);
      verdict.cause = fmt::format("rank {}: {}", trouble.rank, trouble.text);
      break;
    case TroubleKind::lost:
      verdict.cause = fmt::format("rank {} was lost: {}", trouble.rank, trouble.text);
      break;
    case TroubleKind::failed:
      verdict.cause = fmt::format("rank {} failed: {}", trouble.rank, trouble.text);
      break;
    case TroubleKind::cut_off:
      verdict.cause = fmt::format("rank {} was lost: {}", trouble.rank, trouble.text);
      break;
  }
  const bool asked = trouble.kind != TroubleKind::cut_off;
  verdict.doing = doing_text(reports, asked);
  if (asked) verdict.silent = silent_ranks(reports);
  verdict.answered = static_cast<int>(std::ranges::count_if(
      reports, [](const auto& report) { return report && !report->has_left; }));
  return verdict;
}

}  // namespace shardscope
