// Flame trees: what was spent on paths of names, of one run or of several beside one another.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {

/// What a frame is, for whoever colours it.
struct FlameLook {
  OperationKind kind = OperationKind::compute;
  Phase phase = Phase::other;
  std::optional<MemoryCategory> category = {};  ///< of memory, where it is known
  bool operator==(const FlameLook&) const = default;
};

/// What was spent on one path. All stacks of a tree count the same: nanoseconds or bytes.
struct FlameStack {
  std::vector<std::string> frames;  ///< the outermost first
  std::int64_t amount = 0;
  FlameLook look = {};
  bool operator==(const FlameStack&) const = default;
};

/// Runs that a tree has room for.
inline constexpr std::size_t flame_runs = 3;

struct FlameNode {
  static constexpr std::uint32_t none = UINT32_MAX;
  using Amounts = std::array<std::int64_t, flame_runs>;  ///< by run

  std::string name;
  Amounts own{};    ///< of stacks that end here
  Amounts whole{};  ///< and of all below
  std::uint32_t parent = none;
  std::uint32_t first_child = 0, child_count = 0;
  std::uint32_t depth = 0;
  FlameLook look = {};  ///< of a stack that ends here; above these that of the largest child
};

/// Nodes by depth, the root first; children side by side, those that are larger in any run first,
/// of equal ones the one that came first.
struct FlameTree {
  std::vector<FlameNode> nodes;

  bool empty() const { return nodes.size() <= 1; }
  /// The names from below the root to the node, joined by " / "; "" of the root.
  std::string path_of(std::uint32_t node) const;
  /// Is `node` the other one, or below it.
  bool is_within(std::uint32_t node, std::uint32_t other) const;
};

/// Equal paths are added up; amounts of 0 or less are left out.
FlameTree flame_tree(std::span<const FlameStack> first, std::span<const FlameStack> second = {},
                     std::span<const FlameStack> third = {});

/// "outer;inner 123", a line for each path by name: what flamegraph.pl, speedscope and inferno
/// read. Source: Brendan Gregg's stackcollapse format. ';' within a name becomes ':', a line end a
/// space.
std::string folded_text(std::span<const FlameStack> stacks);

/// "transformer.h.0.mlp.c_fc" as transformer, h.0, mlp, c_fc: a number stays with what it counts.
/// A list of several modules ("h.0, h.1") is one frame; "" is none.
std::vector<std::string> module_frames(std::string_view module);

/// A name and the module in it.
struct ModuleName {
  std::string module;  ///< "": the name has none
  std::string rest;    ///< "": the name is that of a module
  bool operator==(const ModuleName&) const = default;
};

/// Names of our own operations and buffers: "h.0.mlp.c_fc linear_forward" is (h.0.mlp.c_fc,
/// linear_forward), "all_gather:h.0" is (h.0, all_gather), "d.h.0.mlp" is (h.0.mlp, d). `unit` is
/// the one that it belongs to, "" the root.
ModuleName split_module(std::string_view name, std::string_view unit);

}  // namespace shardscope
