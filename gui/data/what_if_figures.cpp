// The table of two predictions side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "gui/data/memory_bands.h"
#include "gui/data/strategy_rows.h"
#include "gui/data/what_if.h"

namespace shardscope::gui {
namespace {

enum class Wanted : std::uint8_t { less, more, neither };

/// "-3.2 ms", "+1.5 GiB", "0 B" of the magnitude's text.
std::string signed_text(double difference, const std::string& magnitude) {
  if (difference == 0) return magnitude;
  return (difference > 0 ? "+" : "\u2212") + magnitude;
}

std::string percent(double before, double after) {
  if (before == 0 || before == after) return "";
  return fmt::format(" ({:+.1f}%)", (after / before - 1) * 100);
}

class FigureTable {
 public:
  void time(std::string name, Duration before, Duration after, Wanted wanted = Wanted::less) {
    const Duration difference{std::abs(after.ns - before.ns)};
    add({std::move(name), "ns", rounded_text(before), rounded_text(after), rounded_text(difference),
         static_cast<double>(before.ns), static_cast<double>(after.ns)},
        wanted);
  }
  void bytes(std::string name, Bytes before, Bytes after, Wanted wanted = Wanted::less) {
    const Bytes difference{std::abs(after.count - before.count)};
    add({std::move(name), "bytes", bytes_text(before), bytes_text(after), rounded_text(difference),
         static_cast<double>(before.count), static_cast<double>(after.count)},
        wanted);
  }
  void rate(std::string name, double before, double after) {
    add({std::move(name), "1/s", fmt::format("{:.0f}", before), fmt::format("{:.0f}", after),
         fmt::format("{:.0f}", std::abs(after - before)), before, after},
        Wanted::more);
  }
  void share(std::string name, std::optional<double> before, std::optional<double> after) {
    if (!before || !after) return;
    add({std::move(name), "%", fmt::format("{:.1f}%", *before * 100),
         fmt::format("{:.1f}%", *after * 100),
         fmt::format("{:.1f} points", std::abs(*after - *before) * 100), *before * 100,
         *after * 100},
        Wanted::more, false);
  }
  /// One of the two is not known, so that nothing follows.
  void missing(std::string name, std::string before, std::string after) {
    rows_.push_back({std::move(name), "", std::move(before), std::move(after), "", 0, 0});
  }
  void answer(std::string name, bool before, bool after) {
    FigureRow row{std::move(name), "", before ? "yes" : "no", after ? "yes" : "no", "", 0, 0};
    row.before_number = before;
    row.after_number = after;
    row.better = static_cast<int>(after) - static_cast<int>(before);
    rows_.push_back(std::move(row));
  }

  std::vector<FigureRow> take() { return std::move(rows_); }

 private:
  static std::string bytes_text(Bytes bytes) {
    return bytes < Bytes{} ? "\u2212" + rounded_text(Bytes{-bytes.count}) : rounded_text(bytes);
  }

  void add(FigureRow row, Wanted wanted, bool with_percent = true) {
    const double difference = row.after_number - row.before_number;
    row.difference = signed_text(difference, row.difference);
    if (with_percent && row.before_number > 0)
      row.difference += percent(row.before_number, row.after_number);
    const int sign = difference > 0 ? 1 : difference < 0 ? -1 : 0;
    if (wanted != Wanted::neither) row.better = wanted == Wanted::more ? sign : -sign;
    rows_.push_back(std::move(row));
  }

  std::vector<FigureRow> rows_;
};

/// A step that runs out of memory has no time.
bool runs(const Summary& summary) { return !summary.out_of_memory && summary.step_time.ns > 0; }

std::string step_text(const Summary& summary) {
  return runs(summary) ? rounded_text(summary.step_time) : "does not run";
}

void add_times(FigureTable& table, const Summary& a, const Summary& b) {
  if (!runs(a) || !runs(b)) return table.missing("step time", step_text(a), step_text(b));
  table.time("step time", a.step_time, b.step_time);
  table.time("compute", a.time.compute, b.time.compute, Wanted::neither);
  table.time("exposed communication", a.time.exposed_communication, b.time.exposed_communication);
  table.time("exposed copies", a.time.exposed_copy, b.time.exposed_copy);
  table.time("idle", a.time.idle, b.time.idle);
  table.rate("tokens/s, whole job", a.tokens_per_s, b.tokens_per_s);
  table.share("MFU", a.mfu_share, b.mfu_share);
}

void add_memory(FigureTable& table, const Summary& a, const Summary& b) {
  table.bytes("peak allocated", a.memory.peak_allocated, b.memory.peak_allocated);
  for (const MemoryCategory category : memory_categories) {
    const Bytes before = a.memory.at_peak[category], after = b.memory.at_peak[category];
    if (before > Bytes{} || after > Bytes{})
      table.bytes(fmt::format("    {}", band_name(category)), before, after);
  }
  const auto held = [](const Summary& summary) {
    return std::max(summary.memory.arena, summary.memory.peak_reserved);
  };
  table.bytes("held: arena or reserved", held(a), held(b));
  table.bytes("outside of it", a.memory.outside, b.memory.outside);
}

}  // namespace

std::vector<FigureRow> figures_beside(const ScenarioPointer& before, const ScenarioPointer& after) {
  FigureTable table;
  const Summary& a = *before->predicted->summary;
  const Summary& b = *after->predicted->summary;
  add_times(table, a, b);
  add_memory(table, a, b);
  const auto of_a = strategy_row(before).margin(), of_b = strategy_row(after).margin();
  if (of_a && of_b) table.bytes("margin to the device's memory", *of_a, *of_b, Wanted::more);
  table.answer("fits", a.fits, b.fits);
  return table.take();
}

}  // namespace shardscope::gui
