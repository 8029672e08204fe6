#include "cli/imported_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "cli/summary_text.h"
#include "cli/table.h"
#include "core/quantities.h"

namespace shardscope {
namespace {

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

std::string median_text(std::vector<double> values) {
  if (values.empty()) return "-";
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return fmt::format("{:.2f} GB/s", *middle * 1e-9);
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
      table.row({owner.name.empty() ? "(no Python frame)" : owner.name, rounded_text(owner.bytes),
                 owner.blocks > 0 ? grouped(owner.blocks) : "-"});
    }
  };
  add(memory.categories);
  add(memory.owners);
  return table.text(painter);
}

std::string import_text(const TraceReport& report) {
  std::string text;
  for (std::size_t i = 0; i < report.imports.size(); ++i) {
    const ImportReport& import = report.imports[i];
    text += fmt::format("  {}: {} of {} events", import.format, grouped(import.events_kept),
                        grouped(import.events_read));
    for (const auto& [reason, count] : import.skipped)
      text += fmt::format("; {} lost: {}", grouped(count), reason);
    for (const auto& [what, count] : import.odd)
      text += fmt::format("; {} {}", grouped(count), what);
    for (const std::string& guess : import.guessed) text += "; " + guess;
    text += "\n";
  }
  for (const std::string& file : report.left_out) text += "  left out: " + file + "\n";
  return text;
}

struct Section {
  std::string heading, text;
};

std::vector<Section> sections_of(const TraceReport& report, const Painter& painter) {
  std::vector<Section> sections;
  if (!report.ranks.empty())
    sections.push_back({fmt::format("Time ({} definitions)", name_of(report.definitions)),
                        ranks_table(report, painter)});
  if (!report.collectives.empty()) {
    sections.push_back({"Process groups", groups_table(report, painter)});
    sections.push_back({"Collectives", collectives_table(report, painter)});
  }
  if (!report.memory.empty()) sections.push_back({"Memory", memory_table(report, painter)});
  for (const MemoryReport& memory : report.memory) {
    if (memory.categories.empty() && memory.owners.empty()) continue;
    sections.push_back({memory_name(memory) + (memory.is_cut ? " (its history was cut)" : ""),
                        owners_table(memory, painter)});
  }
  sections.push_back({"Import", import_text(report)});
  return sections;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else {
      out += c;
    }
  }
  return out;
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
  std::string body;
  for (const Section& section : sections_of(report, Painter(ColorChoice::never))) {
    body += fmt::format("<h2>{}</h2>\n<pre>{}</pre>\n", escaped(section.heading),
                        escaped(section.text));
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n"
      "<style>body{{font-family:sans-serif;margin:2em;color:#222}}pre{{overflow-x:auto}}"
      "svg{{max-width:100%;height:auto}}</style></head>\n<body><h1>{0}</h1>\n{1}{2}</body></"
      "html>\n",
      escaped(title), figure, body);
}

}  // namespace shardscope
