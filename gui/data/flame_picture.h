// What the flame graph shows of the runs that are compared: where time goes, or memory at the peak,
// by module.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "gui/data/column_table.h"
#include "gui/data/scenario.h"
#include "traces/flame.h"

namespace shardscope::gui {

enum class FlameOf : std::uint8_t { time, memory };

/// Both sides of `scenario`, and what was predicted of a `ghost` (What-if); or where there is an
/// `other`, the side that both have.
struct FlameQuestion {
  ScenarioPointer scenario, other, ghost;
  std::size_t rank = 0;  ///< index into Side::ranks
  FlameOf of = FlameOf::time;
};

/// One of the runs beside one another.
struct FlameRun {
  std::string title;  ///< "profiled"; "": there is none
  std::string about;  ///< what of it is left out, or how it was found; "": nothing to say
  SideKind side = SideKind::predicted;
  bool is_ghost = false;
  bool operator==(const FlameRun&) const = default;
};

struct FlamePicture {
  FlameOf of = FlameOf::time;
  FlameTree tree;  ///< nanoseconds of a step, or bytes
  std::array<FlameRun, flame_runs> runs;
  ColumnTablePointer table = std::make_shared<const ColumnTable>();  ///< a row for each node
  std::string problem;  ///< why the tree is empty, in words
};

FlamePicture flame_picture(const FlameQuestion& question, const std::stop_token& stop = {});

/// "12.3 ms", "1.20 GiB"
std::string amount_text(FlameOf of, std::int64_t amount);

/// A node where it is drawn: shares of the panel's width.
struct FlameBox {
  std::uint32_t node = 0;
  double left = 0, width = 0;
  bool operator==(const FlameBox&) const = default;
};

/// Widths of one amount: the same in all runs, or so that each run fills its panel.
enum class FlameScale : std::uint8_t { shared, own };

/// The boxes of one run with `zoomed` as wide as the panel; on a shared scale in the run where it
/// is largest. Nodes around it are as wide as it is. By depth, then from the left; what is narrower
/// than `least` is left out.
std::vector<FlameBox> flame_boxes(const FlameTree& tree, std::size_t run, std::uint32_t zoomed,
                                  double least, FlameScale scale = FlameScale::shared);

/// Nodes whose names have the text in them, whatever the case.
struct FlameMatches {
  std::vector<std::uint32_t> nodes;  ///< ascending
  FlameNode::Amounts amounts{};      ///< of all of them, what lies within another once
};
/// "": none.
FlameMatches flame_matches(const FlameTree& tree, std::string_view text);

/// The node of the same path in another tree, or the nearest above it that is there.
std::uint32_t same_node(const FlameTree& from, std::uint32_t node, const FlameTree& to);

}  // namespace shardscope::gui
