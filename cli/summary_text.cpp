#include "cli/summary_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/name_pattern.h"
#include "cli/table.h"
#include "core/base/grouped.h"
#include "core/base/quantities.h"
#include "traces/memory_fit.h"

namespace shardscope {
namespace {

using Part = std::pair<std::string_view, Duration Accounting::*>;
constexpr std::array<Part, 4> parts_of_time{
    {{"compute", &Accounting::compute},
     {"exposed communication", &Accounting::exposed_communication},
     {"exposed copies", &Accounting::exposed_copy},
     {"idle", &Accounting::idle}}};

std::string_view word_for(MemoryCategory category) {
  return category == MemoryCategory::optimizer_states ? "optimizer states" : name_of(category);
}

std::string head_of(const Summary& summary) {
  std::string text = fmt::format("step time   {}", rounded_text(summary.step_time));
  if (summary.step_time_low != summary.step_time_high) {
    text += fmt::format("   (nine of ten from {} to {})", rounded_text(summary.step_time_low),
                        rounded_text(summary.step_time_high));
  }
  if (summary.tokens_per_s == 0) return text + "\n";  // a recording's tokens may not be known
  text += fmt::format("\nthroughput  {:.0f} tokens/s", summary.tokens_per_s);
  if (summary.world > 1)
    text += fmt::format(", {:.0f} per device", summary.tokens_per_s_per_device);
  if (!summary.mfu_share) return text + "\n";
  text += fmt::format(", {:.1f}% of peak flops (MFU)", *summary.mfu_share * 100);
  if (!summary.mfu_formula.empty()) text += "\nMFU         " + summary.mfu_formula;
  return text + "\n";
}

/// "23.1 to 23.6 GiB", "970 MiB to 1.02 GiB", or one figure where both read alike.
std::string range_text(const NeededMemory& band) {
  std::string low = rounded_text(band.low);
  const std::string high = rounded_text(band.high);
  if (low == high) return high;
  const std::size_t unit = low.find(' ');
  if (low.substr(unit) == high.substr(high.find(' '))) low.resize(unit);
  return fmt::format("{} to {}", low, high);
}

std::string fit_line(const Summary& summary, const Painter& painter) {
  if (!summary.device_memory || summary.out_of_memory) return "";
  const MemoryFit fit = memory_fit(summary);
  std::string text =
      fmt::format("fits        {}: needs {} of {}",
                  painter(fit == MemoryFit::yes     ? Paint::good
                          : fit == MemoryFit::tight ? Paint::warning
                                                    : Paint::bad,
                          name_of(fit)),
                  range_text(memory_band(summary)), rounded_text(*summary.device_memory));
  if (fit == MemoryFit::tight)
    text += fmt::format(", {} spare; {} should stay free for what is not predicted (--margin)",
                        rounded_text(*free_memory(summary)), rounded_text(margin_wanted(summary)));
  return text + "\n";
}

std::string host_of(const Summary& summary) {
  if (!summary.host_memory) return "";
  return fmt::format("host memory {} a rank, {} a node: at least, for what is offloaded\n",
                     rounded_text(*summary.host_memory),
                     rounded_text(summary.host_memory_of_node.value_or(*summary.host_memory)));
}

/// What DeepSpeed's hooks take of the host; "" for none. They run beside the device, so that they
/// are in no row of the step's time.
std::string hooks_text(const Summary& summary) {
  if (!summary.hooks) return "";
  return fmt::format("host        DeepSpeed's {} hooks around modules take {} of a step\n",
                     grouped(summary.hooks->times), rounded_text(summary.hooks->time));
}

std::string time_table(const Accounting& time, const Painter& painter) {
  Table table({{"time of a step"}, {"", Align::right}, {"share", Align::right}});
  for (const auto& [name, part] : parts_of_time) {
    table.row({std::string(name), rounded_text(time.*part), share_text(time.*part, time.span)});
  }
  table.rule();
  table.row({"sum", rounded_text(time.span), share_text(time.span, time.span)});
  table.row({"communication in all", rounded_text(time.communication),
             share_text(time.communication, time.span)});
  table.row({"of it under compute", rounded_text(time.overlap),
             share_text(time.overlap, time.communication)});
  return table.text(painter);
}

void add_layout(const Summary& summary, Table& table) {
  const MemorySummary& memory = summary.memory;
  if (memory.arena.count > 0) {
    table.row({"live bytes", rounded_text(memory.peak_allocated)});
    table.row({"arena", rounded_text(memory.arena)});
  } else {
    table.row({"allocated", rounded_text(memory.peak_allocated)});
    table.row({"active", rounded_text(memory.peak_active)});
    table.row({"reserved", rounded_text(memory.peak_reserved)});
  }
  for (const OutsideItem& item : summary.outside)
    if (item.bytes.count > 0) table.row({item.item, rounded_text(item.bytes)});
  if (!memory.at_operation.empty()) table.row({"peak at", memory.at_operation});
}

std::string memory_table(const Summary& summary, const Painter& painter) {
  const MemorySummary& memory = summary.memory;
  Table table({{"memory"}, {"at the peak", Align::right}, {"at any time", Align::right}});
  for (const MemoryCategory category : memory_categories) {
    table.row({std::string(word_for(category)), rounded_text(memory.at_peak[category]),
               rounded_text(memory.maximum[category])});
  }
  table.rule();
  add_layout(summary, table);
  return table.text(painter);
}

/// The first steps differ under PyTorch: optimizer states appear, buckets are rebuilt.
std::string step_table(const Summary& summary, const Painter& painter) {
  Table table({{"step"},
               {"time", Align::right},
               {"allocated", Align::right},
               {"active", Align::right},
               {"reserved", Align::right},
               {"reserved + CUDA context + NCCL", Align::right}});
  for (const StepSummary& step : summary.steps)
    table.row({step.label, rounded_text(step.time.span), rounded_text(step.memory.peak_allocated),
               rounded_text(step.memory.peak_active), rounded_text(step.memory.peak_reserved),
               rounded_text(step.memory.peak_reserved + step.memory.outside)});
  return table.text(painter);
}

/// Units that are alike but for the number of their block stand in one row.
struct UnitRow {
  std::string name;
  std::int64_t count = 0;
  UnitAccounting sum;
};

void add(UnitAccounting& sum, const UnitAccounting& unit) {
  sum.compute += unit.compute;
  sum.communication += unit.communication;
  sum.exposed_communication += unit.exposed_communication;
  sum.communication_bytes += unit.communication_bytes;
}

std::vector<UnitRow> rows_of(const std::vector<UnitAccounting>& units) {
  std::vector<UnitRow> rows;
  for (const UnitAccounting& unit : units) {
    const std::string name = unit.unit.empty() ? "(root)" : without_indices(unit.unit);
    auto row = std::ranges::find(rows, name, &UnitRow::name);
    if (row == rows.end()) row = rows.insert(rows.end(), {.name = name});
    ++row->count;
    add(row->sum, unit);
  }
  return rows;
}

std::string unit_table(const Summary& summary, const Painter& painter) {
  Table table({{"unit"},
               {"times", Align::right},
               {"compute", Align::right},
               {"communication", Align::right},
               {"exposed", Align::right},
               {"payload", Align::right}});
  for (const UnitRow& row : rows_of(summary.by_unit)) {
    table.row({row.name, grouped(row.count), rounded_text(row.sum.compute),
               rounded_text(row.sum.communication), rounded_text(row.sum.exposed_communication),
               rounded_text(row.sum.communication_bytes)});
  }
  return table.text(painter);
}

std::string list_text(const std::vector<int>& numbers) {
  return fmt::format("{}", fmt::join(numbers, ", "));
}

/// One rank of every stage.
std::string pipeline_text(const PipelineSummary& pipeline, const Painter& painter) {
  Table table({{"rank of the pipeline"},
               {"stages"},
               {"layers", Align::right},
               {"compute", Align::right},
               {"exposed comm.", Align::right},
               {"idle", Align::right},
               {"bubble", Align::right},
               {"activations", Align::right},
               {"live bytes", Align::right}});
  for (const StageSummary& rank : pipeline.ranks)
    table.row({std::to_string(rank.rank), list_text(rank.stages), std::to_string(rank.layers),
               rounded_text(rank.compute), rounded_text(rank.exposed_communication),
               rounded_text(rank.idle), fmt::format("{:.1f}%", rank.bubble_share * 100),
               rounded_text(rank.activations), rounded_text(rank.peak)});
  return fmt::format("pipeline    {}, {} micro-batches, bubble {:.1f}% of the step\n\n",
                     pipeline.schedule, pipeline.micro_batches, pipeline.bubble_share * 100) +
         table.text(painter);
}

std::string figure_text(const Summary&, Duration time) { return rounded_text(time); }
std::string figure_text(const Summary& summary, Bytes bytes) { return memory_text(summary, bytes); }

/// The columns of a comparison for the sides that there are, filled a row at a time.
class ComparisonTable {
 public:
  ComparisonTable(const std::optional<Predicted<Summary>>& predicted,
                  const std::optional<Profiled<Summary>>& profiled)
      : predicted_(predicted), profiled_(profiled), table_(columns()) {}

  /// `get` takes the figure, a Duration or Bytes, out of a summary.
  template <class Get>
  void row(std::string_view name, const Get& get) {
    std::vector<Cell> cells{std::string(name)};
    if (predicted_) cells.emplace_back(figure_text(predicted_->value, get(predicted_->value)));
    if (profiled_) cells.emplace_back(figure_text(profiled_->value, get(profiled_->value)));
    if (predicted_ && profiled_) {
      using Value = decltype(get(predicted_->value));
      const auto error =
          error_share(SideBySide<Value>{{get(predicted_->value)}, {get(profiled_->value)}});
      cells.emplace_back(error_text(error), error_paint(error));
    }
    table_.row(std::move(cells));
  }
  void rule() { table_.rule(); }
  std::string text(const Painter& painter) const { return table_.text(painter); }

 private:
  std::vector<Column> columns() const {
    std::vector<Column> result{{"a steady step, rank 0"}};
    if (predicted_) result.push_back({"predicted", Align::right});
    if (profiled_) result.push_back({"profiled", Align::right});
    if (predicted_ && profiled_) result.push_back({"error", Align::right});
    return result;
  }

  const std::optional<Predicted<Summary>>& predicted_;
  const std::optional<Profiled<Summary>>& profiled_;
  Table table_;
};

}  // namespace

std::string verdict_text(const Summary& summary, const Painter& painter) {
  return head_of(summary) + fit_line(summary, painter) + host_of(summary) + hooks_text(summary);
}

std::string summary_text(const Summary& summary, const Painter& painter) {
  std::string text = verdict_text(summary, painter) + "\n" + time_table(summary.time, painter) +
                     "\n" + memory_table(summary, painter);
  if (summary.steps.size() > 1) text += "\n" + step_table(summary, painter);
  if (summary.pipeline) text += "\n" + pipeline_text(*summary.pipeline, painter);
  if (!summary.by_unit.empty()) text += "\n" + unit_table(summary, painter);
  return text;
}

std::string out_of_memory_text(const Summary& summary, const Painter& painter) {
  if (summary.fits) return "";
  if (!summary.out_of_memory) return painter(Paint::bad, "does not fit") + "\n";
  const OutOfMemorySummary& failure = *summary.out_of_memory;
  const std::string module = failure.module.empty() ? "the model" : failure.module;
  return fmt::format(
      "{} in step {}: {} in {} asks for {} ({} bytes);\n{} are allocated, {} active, {} reserved, "
      "{} "
      "of the device are free\n",
      painter(Paint::bad, "out of memory"), failure.step, failure.operation, module,
      rounded_text(failure.requested), grouped(failure.requested.count),
      rounded_text(failure.allocated), rounded_text(failure.active), rounded_text(failure.reserved),
      rounded_text(failure.free));
}

std::string comparison_text(const std::optional<Predicted<Summary>>& predicted,
                            const std::optional<Profiled<Summary>>& profiled,
                            const Painter& painter) {
  ComparisonTable table(predicted, profiled);
  table.row("step time", [](const Summary& s) { return s.step_time; });
  for (const auto& [name, part] : parts_of_time) {
    table.row("  " + std::string(name), [part = part](const Summary& s) { return s.time.*part; });
  }
  table.row("communication in all", [](const Summary& s) { return s.time.communication; });
  table.rule();
  table.row("peak of live bytes", [](const Summary& s) { return s.memory.peak_allocated; });
  for (const MemoryCategory category : memory_categories) {
    table.row("  " + std::string(word_for(category)),
              [category](const Summary& s) { return s.memory.at_peak[category]; });
  }
  const auto has_arena = [](const auto& side) {
    return side && side->value.memory.arena > Bytes{};
  };
  if (has_arena(predicted) || has_arena(profiled))
    table.row("arena", [](const Summary& s) { return s.memory.arena; });
  return table.text(painter);
}

std::string memory_text(const Summary& summary, Bytes bytes) {
  const bool is_said = bytes != Bytes{} || summary.memory.at_peak.total() != Bytes{};
  return is_said ? rounded_text(bytes) : "-";
}

std::string error_text(std::optional<double> share) {
  return share ? fmt::format("{:+.1f}%", *share * 100) : std::string();
}

Paint error_paint(std::optional<double> share) {
  if (!share) return Paint::plain;
  const double size = std::abs(*share);
  return size <= 0.05 ? Paint::good : size <= 0.15 ? Paint::warning : Paint::bad;
}

std::string share_text(Duration part, Duration whole) {
  if (whole.ns == 0) return "-";
  return fmt::format("{:.1f}%",
                     100.0 * static_cast<double>(part.ns) / static_cast<double>(whole.ns));
}

}  // namespace shardscope
