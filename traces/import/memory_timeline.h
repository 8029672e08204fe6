// Memory by category over time, as torch.profiler's export_memory_timeline writes it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/quantities.h"
#include "traces/import/event_column.h"
#include "traces/import/imported_trace.h"
#include "traces/import/text_input.h"

namespace shardscope {

/// In PyTorch's order (torch/profiler/_memory_profiler.py, _CATEGORY_TO_INDEX).
enum class TimelineCategory : std::uint8_t {
  parameter,
  optimizer_state,
  input,
  temporary,
  activation,
  gradient,
  autograd_detail,
  unknown,
};
constexpr std::size_t timeline_categories = 8;
std::string_view name_of(TimelineCategory category);

/// PyTorch's numbers are one more.
enum class TimelineAction : std::uint8_t { preexisting, create, increment_version, destroy };
constexpr std::size_t timeline_actions = 4;
std::string_view name_of(TimelineAction action);

/// A ".raw.json": one row a change. 18 bytes each.
struct TimelineRows {
  EventColumn<std::int64_t> time_ns;  ///< since 1970; -1: before the profile
  EventColumn<std::int64_t> bytes;    ///< signed
  EventColumn<TimelineAction> action;
  EventColumn<TimelineCategory> category;
  std::size_t count() const { return bytes.size(); }
};

/// A ".json": bytes at points in time. The first column is a constant 0, the others are the
/// categories.
struct TimelinePoints {
  std::vector<std::int64_t> times_us;  ///< since 1970
  std::size_t columns = 0;
  EventColumn<std::int64_t> bytes;  ///< of each point, column by column
  std::size_t count() const { return columns == 0 ? 0 : bytes.size() / columns; }
};

/// Only one of both is there.
struct MemoryTimeline {
  std::string file;
  TimelineRows rows;
  TimelinePoints points;
  ImportReport report;
};

/// Reads either kind, told apart by their shape. Rows that are no change are counted as skipped;
/// points without a time are, too. Throws Error for a file that has no row of either.
MemoryTimeline read_memory_timeline(TextInput& input, const std::string& file);

/// Of what a timeline's rows or points add up to.
struct TimelineFigures {
  std::optional<std::int64_t> first_ns, last_ns;
  std::int64_t times_going_back = 0;
  Bytes peak, final;
  std::size_t peak_at = 0;    ///< row or point; the first of equal ones
  std::int64_t peak_ns = -1;  ///< -1: before the profile
  /// By category; `maximum` each at its own time.
  std::array<Bytes, timeline_categories> maximum{}, at_peak{}, at_end{};
};
TimelineFigures timeline_figures(const MemoryTimeline& timeline);

}  // namespace shardscope
