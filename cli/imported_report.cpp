#include "cli/imported_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "cli/html_page.h"
#include "cli/summary_text.h"
#include "cli/table.h"
#include "core/base/grouped.h"
#include "core/base/median.h"
#include "core/base/quantities.h"
#include "core/base/utf8.h"

namespace shardscope {
namespace {

constexpr std::size_t shown_stragglers = 10;

std::string bytes_text(const std::optional<Bytes>& bytes) {
  return bytes ? rounded_text(*bytes) : "-";
}

std::string rank_text(const RankReport& rank) {
  return rank.device ? fmt::format("{}, device {}", rank.rank, *rank.device)
                     : fmt::format("{}, host", rank.rank);
}

std::string ranks_table(const TraceReport& report, const Painter& painter) {
  Table table({{"rank"},
               {"span", Align::right},
               {"= compute", Align::right},
               {"+ exposed comm.", Align::right},
               {"+ exposed copies", Align::right},
               {"+ idle", Align::right},
               {"comm.", Align::right},
               {"overlapped", Align::right},
               {"peak allocated", Align::right},
               {"reserved", Align::right}});
  for (const RankReport& rank : report.ranks) {
    table.row({rank_text(rank), rounded_text(rank.time.span), rounded_text(rank.time.compute),
               rounded_text(rank.time.exposed_communication), rounded_text(rank.time.exposed_copy),
               rounded_text(rank.time.idle), rounded_text(rank.time.communication),
               share_text(rank.time.overlap, rank.time.communication),
               bytes_text(rank.peak_allocated), bytes_text(rank.peak_reserved)});
  }
  return table.text(painter);
}

/// Of devices as a whole; where a definition knows streams only, of those.
std::string idle_table(const TraceReport& report, const Painter& painter) {
  Table table({{"rank"},
               {"stream"},
               {"idle", Align::right},
               {"waits for host", Align::right},
               {"for collectives", Align::right},
               {"for other streams", Align::right},
               {"between kernels", Align::right},
               {"other", Align::right},
               {"gaps", Align::right}});
  for (const IdleReport& of : report.idle) {
    const IdleTime& idle = of.idle;
    const std::string stream =
        idle.stream ? fmt::format("{} ({})", *idle.stream, name_of(idle.span_class)) : "all";
    std::vector<Cell> cells{fmt::format("{}, device {}", of.rank, of.device), stream,
                            rounded_text(idle.total())};
    for (const IdleCause cause : idle_causes) cells.emplace_back(rounded_text(idle.of(cause)));
    cells.emplace_back(grouped(idle.gaps));
    table.row(std::move(cells));
  }
  return table.text(painter);
}

/// Who came last to the collectives of all ranks, and the collectives that waited longest for it.
std::string stragglers_text(const TraceReport& report, const Painter& painter) {
  Table ranks({{"rank", Align::right},
               {"collectives", Align::right},
               {"came last", Align::right},
               {"waited", Align::right},
               {"let others wait", Align::right},
               {"clock set by", Align::right}});
  for (const RankWaits& rank : report.matched.ranks) {
    ranks.row({fmt::format("{}", rank.rank), grouped(rank.collectives), grouped(rank.times_last),
               rounded_text(rank.waited), rounded_text(rank.let_others_wait),
               rounded_text(rank.clock_offset)});
  }
  Table worst({{"collective"},
               {"call", Align::right},
               {"start skew", Align::right},
               {"last rank", Align::right}});
  std::vector<const MatchedCollective*> order;
  for (const MatchedCollective& matched : report.matched.collectives) order.push_back(&matched);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->start_skew > b->start_skew; });
  order.resize(std::min(order.size(), shown_stragglers));
  for (const MatchedCollective* matched : order) {
    const std::string kind(matched->what.kind ? name_of(*matched->what.kind) : matched->what.name);
    worst.row({matched->what.group.empty() ? kind : kind + " of " + matched->what.group,
               grouped(matched->call), rounded_text(matched->start_skew),
               fmt::format("{}", matched->last_rank)});
  }
  std::string text = ranks.text(painter) + worst.text(painter);
  for (const std::string& line : report.matched.not_matched)
    text += "  not matched: " + printable(line) + "\n";
  return text;
}

std::string groups_table(const TraceReport& report, const Painter& painter) {
  Table table({{"rank", Align::right},
               {"process group"},
               {"collectives", Align::right},
               {"time", Align::right},
               {"exposed", Align::right}});
  for (const GroupReport& group : report.groups) {
    table.row({fmt::format("{}", group.rank), group.group.empty() ? "(not said)" : group.group,
               grouped(group.collectives), rounded_text(group.communication),
               rounded_text(group.exposed_communication)});
  }
  return table.text(painter);
}

/// Collectives of one kind on all ranks.
struct KindFigures {
  std::int64_t number = 0;
  Duration sum;
  std::vector<double> bandwidths;
};

std::map<std::string, KindFigures> by_kind(const TraceReport& report) {
  std::map<std::string, KindFigures> kinds;
  for (const RankCollective& of_rank : report.collectives) {
    const ImportedCollective& c = of_rank.collective;
    KindFigures& figures = kinds[c.kind ? std::string(name_of(*c.kind)) : "(not said)"];
    ++figures.number;
    figures.sum += c.duration;
    if (const auto bandwidth = bus_bandwidth(c))
      figures.bandwidths.push_back(bandwidth->bytes_per_s);
  }
  return kinds;
}

std::string median_text(const std::vector<double>& values) {
  return values.empty() ? "-" : fmt::format("{:.2f} GB/s", lower_median(values) * 1e-9);
}

std::string collectives_table(const TraceReport& report, const Painter& painter) {
  Table table({{"collective"},
               {"number", Align::right},
               {"sum of durations", Align::right},
               {"median bus bandwidth", Align::right}});
  for (const auto& [kind, figures] : by_kind(report)) {
    table.row({kind, grouped(figures.number), rounded_text(figures.sum),
               median_text(figures.bandwidths)});
  }
  return table.text(painter);
}

std::string memory_name(const MemoryReport& memory) {
  return memory.device ? fmt::format("{}, device {}", memory.file, *memory.device) : memory.file;
}

std::string memory_table(const TraceReport& report, const Painter& painter) {
  Table table({{"memory of"},
               {"before", Align::right},
               {"peak allocated", Align::right},
               {"active", Align::right},
               {"reserved", Align::right},
               {"out of memory", Align::right}});
  for (const MemoryReport& memory : report.memory) {
    table.row({memory_name(memory), bytes_text(memory.active_before),
               bytes_text(memory.peak_allocated), bytes_text(memory.peak_active),
               bytes_text(memory.peak_reserved), grouped(memory.out_of_memory)});
  }
  return table.text(painter);
}

/// What lives at one peak, by category and then by frame.
std::string owners_table(const MemoryReport& memory, const Painter& painter) {
  Table table({{"alive at the peak"}, {"bytes", Align::right}, {"blocks", Align::right}});
  const auto add = [&](const std::vector<MemoryOwner>& owners) {
    for (const MemoryOwner& owner : owners) {
      table.row({owner.name.empty() ? "(no frame that says whose)" : owner.name,
                 rounded_text(owner.bytes), owner.blocks > 0 ? grouped(owner.blocks) : "-"});
    }
  };
  add(memory.categories);
  add(memory.owners);
  return table.text(painter);
}

std::string import_text(const TraceReport& report) {
  std::string text;
  for (const auto& [file, import] : report.imports) {
    text += fmt::format("  {} ({}): {} of {} events", file, import.format,
                        grouped(import.events_kept), grouped(import.events_read));
    for (const auto& [reason, count] : import.skipped)
      text += fmt::format("; {} lost: {}", grouped(count), reason);
    for (const auto& [what, count] : import.odd)
      text += fmt::format("; {} {}", grouped(count), what);
    for (const std::string& guess : import.guessed) text += "; " + printable(guess);
    text += "\n";
  }
  for (const std::string& file : report.left_out) text += "  left out: " + printable(file) + "\n";
  return text;
}

std::vector<Section> sections_of(const TraceReport& report, const Painter& painter) {
  std::vector<Section> sections;
  if (!report.ranks.empty())
    sections.push_back({fmt::format("Time ({} definitions)", name_of(report.definitions)),
                        ranks_table(report, painter)});
  if (!report.idle.empty())
    sections.push_back({"Idle time, by cause", idle_table(report, painter)});
  if (!report.collectives.empty()) {
    sections.push_back({"Process groups", groups_table(report, painter)});
    sections.push_back({"Collectives", collectives_table(report, painter)});
  }
  if (!report.matched.collectives.empty() || !report.matched.not_matched.empty())
    sections.push_back(
        {fmt::format("Ranks together: {} collectives matched", report.matched.collectives.size()),
         stragglers_text(report, painter)});
  if (!report.memory.empty()) sections.push_back({"Memory", memory_table(report, painter)});
  for (const MemoryReport& memory : report.memory) {
    if (memory.categories.empty() && memory.owners.empty()) continue;
    sections.push_back(
        {printable(memory_name(memory)) + (memory.is_cut ? " (its history was cut)" : ""),
         owners_table(memory, painter)});
  }
  sections.push_back({"Import", import_text(report)});
  return sections;
}

}  // namespace

std::string report_text(const TraceReport& report, const Painter& painter) {
  std::string text;
  for (const Section& section : sections_of(report, painter)) {
    if (!text.empty()) text += "\n";
    text += painter(Paint::bold, section.heading) + "\n" + section.text;
  }
  return text;
}

std::string report_page(const TraceReport& report, const std::string& title,
                        const std::string& figure) {
  return html_page(title, figure, sections_of(report, Painter(ColorChoice::never)));
}

}  // namespace shardscope
