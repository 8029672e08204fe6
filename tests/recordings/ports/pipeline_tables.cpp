#include "tests/recordings/ports/pipeline_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/refusal.h"
#include "core/pipeline/lowering.h"
#include "core/pipeline/pipeline_schedule.h"

namespace shardscope::recordings {
namespace {

using Cells = std::vector<std::string>;

ActionOrder printed_gpipe(const PipelineSetup& setup, int rank) {
  ActionOrder order;
  for (const ActionKind kind : {ActionKind::forward, ActionKind::full_backward})
    for (int i = 0; i < setup.micro_batches; ++i) order.emplace_back(Action{kind, rank, i});
  return order;
}

/// The forwards of the steady state go on from the last one of the warm-up, which is 0 where there
/// was none: hence 1 to M on the last rank.
ActionOrder printed_1f1b(const PipelineSetup& setup, int rank) {
  const int warm_up = setup.stages() - 1 - rank;
  ActionOrder order;
  for (int i = 0; i < warm_up; ++i) order.emplace_back(Action{ActionKind::forward, rank, i});
  int forward = std::max(0, warm_up - 1);
  int backward = 0;
  for (; backward < setup.micro_batches - warm_up; ++backward) {
    order.emplace_back(Action{ActionKind::forward, rank, ++forward});
    order.emplace_back(Action{ActionKind::full_backward, rank, backward});
  }
  for (; backward < setup.micro_batches; ++backward)
    order.emplace_back(Action{ActionKind::full_backward, rank, backward});
  return order;
}

/// A row for each step: its label, then what each rank does.
std::vector<Cells> rows_of(const std::vector<ActionOrder>& orders) {
  std::size_t steps = 0;
  for (const ActionOrder& order : orders) steps = std::max(steps, order.size());
  const std::size_t digits = std::to_string(steps - 1).size();
  std::vector<Cells> rows;
  for (std::size_t step = 0; step < steps; ++step) {
    Cells row{fmt::format("Step {:0{}}", step, digits)};
    for (const ActionOrder& order : orders)
      row.push_back(step < order.size() ? text_of(order[step]) : "");
    rows.push_back(std::move(row));
  }
  return rows;
}

/// PyTorch zips labels with rows where columns were meant: rank i's width is that of step i's label
/// or of the longest action of rank i.
std::vector<std::size_t> widths_of(const std::vector<Cells>& rows, std::size_t ranks) {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < std::min(rows.size(), ranks); ++i) {
    std::size_t width = rows[i][0].size();
    for (const Cells& row : rows) width = std::max(width, row[i + 1].size());
    widths.push_back(width);
  }
  return widths;
}

std::string joined(const Cells& cells, const std::vector<std::size_t>& widths) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i >= widths.size()) throw Refusal("IndexError", "list index out of range");
    line += fmt::format("{}{:<{}}", i == 0 ? "" : " ", cells[i], widths[i]);
  }
  return line;
}

}  // namespace

std::vector<ActionOrder> printed_orders(const PipelineSetup& setup) {
  if (!has_single_stage(setup.kind)) return lowered_schedule(setup).computes;
  check_counts(setup);
  std::vector<ActionOrder> orders;
  for (int rank = 0; rank < setup.stages(); ++rank) {
    const ActionOrder order = setup.kind == PipelineScheduleKind::gpipe ? printed_gpipe(setup, rank)
                                                                        : printed_1f1b(setup, rank);
    orders.push_back(with_reductions(order, setup.micro_batches, false));
  }
  return orders;
}

std::vector<std::string> formatted_orders(const std::vector<ActionOrder>& orders) {
  const std::vector<Cells> rows = rows_of(orders);
  const std::vector<std::size_t> widths = widths_of(rows, orders.size());
  Cells header;
  for (std::size_t rank = 0; rank < orders.size(); ++rank)
    header.push_back(fmt::format("Rank {}", rank));
  std::vector<std::string> lines{std::string(rows[0][0].size() + 2, ' ') + joined(header, widths)};
  for (const Cells& row : rows)
    lines.push_back(row[0] + ": " + joined({row.begin() + 1, row.end()}, widths));
  return lines;
}

}  // namespace shardscope::recordings
