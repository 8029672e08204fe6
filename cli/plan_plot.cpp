#include "cli/plan_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "traces/memory_fit.h"

namespace shardscope {
namespace {

constexpr int columns = 56, rows = 11;

struct Range {
  double low = 0, high = 1;
  int cell(double value, int cells) const {
    const double share = high > low ? (value - low) / (high - low) : 0;
    return std::clamp(static_cast<int>(std::lround(share * (cells - 1))), 0, cells - 1);
  }
};

double time_of(const planner::Candidate& c) { return static_cast<double>(c.summary.step_time.ns); }
double memory_of(const planner::Candidate& c) {
  return static_cast<double>(needed_memory(c.summary).count);
}

template <class Get>
Range range_of(const std::vector<planner::Candidate>& candidates, const Get& get) {
  const auto [low, high] = std::minmax_element(
      candidates.begin(), candidates.end(),
      [&](const planner::Candidate& a, const planner::Candidate& b) { return get(a) < get(b); });
  return {get(*low), get(*high)};
}

/// Writes a place's digits, moved left where they would leave the grid.
void mark(std::vector<std::string>& grid, int x, int y, const std::string& text) {
  const int first = std::min(x, columns - static_cast<int>(text.size()));
  std::string& line = grid[static_cast<std::size_t>(y)];
  line.replace(static_cast<std::size_t>(first), text.size(), text);
}

Duration duration_of(double ns) { return {static_cast<std::int64_t>(ns)}; }
Bytes bytes_of_value(double count) { return {static_cast<std::int64_t>(count)}; }

}  // namespace

std::string pareto_plot(const std::vector<planner::Candidate>& candidates) {
  if (candidates.size() < 2) return {};
  const Range time = range_of(candidates, time_of), memory = range_of(candidates, memory_of);
  std::vector<std::string> grid(rows, std::string(columns, ' '));
  // The best are drawn last, over those that share their cell.
  for (auto c = candidates.rbegin(); c != candidates.rend(); ++c)
    mark(grid, time.cell(time_of(*c), columns), rows - 1 - memory.cell(memory_of(*c), rows),
         fmt::format("{}{}", c->place, c->on_front ? "*" : ""));
  const std::string high = rounded_text(bytes_of_value(memory.high));
  const std::string low = rounded_text(bytes_of_value(memory.low));
  const std::size_t width = std::max(high.size(), low.size());
  std::string text = "memory over step time by place; * nothing is both faster and smaller\n";
  for (int y = 0; y < rows; ++y) {
    std::string line = fmt::format("  {:>{}} |{}",
                                   y == 0          ? high
                                   : y == rows - 1 ? low
                                                   : "",
                                   width, grid[static_cast<std::size_t>(y)]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  const std::string left = rounded_text(duration_of(time.low));
  const std::string right = rounded_text(duration_of(time.high));
  text += fmt::format("  {:>{}} +{}\n", "", width, std::string(columns, '-'));
  text += fmt::format("  {:>{}}  {}{:>{}}\n", "", width, left, right,
                      columns - static_cast<int>(left.size()));
  return text;
}

}  // namespace shardscope
