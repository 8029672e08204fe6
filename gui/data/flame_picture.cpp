#include "gui/data/flame_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "gui/data/peak_set.h"
#include "gui/data/predicted_place.h"
#include "gui/data/unit_rows.h"
#include "traces/flame_stacks.h"
#include "traces/held_sum.h"
#include "traces/import/snapshot_stacks.h"
#include "traces/match/host_stacks.h"

namespace shardscope::gui {
namespace {

/// One run's stacks; none: that side is not there.
struct RunStacks {
  FlameRun run;
  std::vector<FlameStack> stacks;
};

/// Is the file of that rank the file of others too: what its host did is of all of them.
bool is_shared(const Side& side, std::size_t rank) {
  return std::count(side.imported.begin(), side.imported.end(), side.imported[rank]) > 1;
}

std::vector<FlameStack> stacks_of_step(const Trace& trace) {
  return time_stacks(trace, shown_step(trace));
}

RunStacks imported_times(const Scenario& scenario, const Side& side, std::size_t rank) {
  RunStacks result;
  if (const ComparedTraces traces = compared_traces(scenario, rank); traces.match != nullptr) {
    result.stacks = stacks_of_step(*traces.profiled);
    result.run.about = "operations that were matched with the prediction";
  } else if (is_shared(side, rank)) {
    result.stacks = stacks_of_step(*side.ranks[rank]);
  } else {
    result.stacks = host_stacks(*side.imported[rank], typical_host_step(*side.imported[rank]));
    result.run.about = "modules by the profiler's scopes around each launch";
  }
  return result;
}

std::optional<RunStacks> times_of(const Scenario& scenario, SideKind kind, std::size_t rank) {
  const Side* side = scenario.side(kind);
  if (side == nullptr || !side->has_trace()) return std::nullopt;
  rank = kind == SideKind::predicted ? predicted_place(scenario, rank)
                                     : std::min(rank, side->ranks.size() - 1);
  const bool is_imported = rank < side->imported.size() && side->imported[rank];
  return is_imported ? imported_times(scenario, *side, rank)
                     : RunStacks{.run = {}, .stacks = stacks_of_step(*side->ranks[rank])};
}

FlameLook look_of(std::size_t band) {
  if (band >= memory_category_count) return {};
  return {.category = memory_categories[band]};
}

/// Of a buffer below its category: the frames that asked for it, or its module and its name.
std::vector<std::string> frames_of(const Scenario& scenario, const LiveSet& set,
                                   const LiveBuffer& buffer, const FactsTable& facts,
                                   const Trace& names) {
  if (set.snapshot) return outer_frames(*set.snapshot, buffer.stack);
  const PredictedBuffer& from = scenario.predicted->buffers[buffer.key];
  ModuleName of = module_of(names, from, facts.find(from.allocated_by));
  std::vector<std::string> frames = module_frames(of.module);
  if (!of.rest.empty()) frames.push_back(std::move(of.rest));
  return frames;
}

std::optional<RunStacks> memory_of(const Scenario& scenario, SideKind kind, std::size_t rank) {
  const auto set = live_at_peak(scenario, kind, rank);
  if (!set) return std::nullopt;
  RunStacks result;
  const bool has_names = scenario.predicted && scenario.predicted->has_trace();
  const Trace none;
  const Trace& names = has_names ? *scenario.predicted->ranks.front() : none;
  const FactsTable facts(names);
  for (const LiveBuffer& buffer : set->buffers) {
    FlameStack stack{.frames = {std::string(band_name(buffer.band))},
                     .amount = buffer.bytes.count,
                     .look = look_of(buffer.band)};
    for (std::string& frame : frames_of(scenario, *set, buffer, facts, names))
      stack.frames.push_back(std::move(frame));
    result.stacks.push_back(std::move(stack));
  }
  for (std::size_t band = 0; band < memory_band_count; ++band)
    result.stacks.push_back(
        {.frames = {std::string(band_name(band)), "rounding, and what has no record"},
         .amount = set->unlisted[band].count,
         .look = look_of(band)});
  if (!set->snapshot && kind == SideKind::profiled && !set->buffers.empty())
    result.run.about = "buffers of the schedule that both sides play";
  return result;
}

std::optional<RunStacks> stacks_of(const FlameQuestion& question, const Scenario& scenario,
                                   SideKind kind) {
  auto found = question.of == FlameOf::time ? times_of(scenario, kind, question.rank)
                                            : memory_of(scenario, kind, question.rank);
  if (!found) return std::nullopt;
  found->run.side = kind;
  found->run.title = name_of(kind);
  return found;
}

using Runs = std::array<std::optional<RunStacks>, flame_runs>;

Runs runs_of(const FlameQuestion& question) {
  if (!question.scenario) return {};
  if (!question.other) {
    Runs runs{stacks_of(question, *question.scenario, SideKind::predicted),
              stacks_of(question, *question.scenario, SideKind::profiled)};
    if (question.ghost) runs[2] = stacks_of(question, *question.ghost, SideKind::predicted);
    if (runs[2]) {
      runs[2]->run.title = "what-if";
      runs[2]->run.is_ghost = true;
    }
    return runs;
  }
  for (const SideKind kind : {SideKind::profiled, SideKind::predicted}) {
    Runs runs{stacks_of(question, *question.scenario, kind),
              stacks_of(question, *question.other, kind)};
    if (!runs[0] || !runs[1]) continue;
    runs[0]->run.title = "A: " + question.scenario->label + ", " + runs[0]->run.title;
    runs[1]->run.title = "B: " + question.other->label + ", " + runs[1]->run.title;
    return runs;
  }
  return {};
}

std::string problem_of(const FlameQuestion& question) {
  if (!question.scenario) return "Nothing is open";
  if (question.other) return "A and B have no side in common: profile or predict both";
  return question.of == FlameOf::time ? "No operation on a device is known"
                                      : "No memory over time is known";
}

/// `path_of` each node but the root. Where all of them together are very long, as those of deep
/// stacks, each is cut to its innermost part.
std::vector<std::string> paths_of(const FlameTree& tree) {
  constexpr std::size_t most_text = std::size_t{64} << 20, least_path = 40;
  constexpr std::string_view between = " / ", cut = "... ";
  std::vector<std::size_t> lengths(tree.nodes.size());
  std::size_t whole = 0;
  for (std::size_t i = 1; i < tree.nodes.size(); ++i) {
    const std::uint32_t parent = tree.nodes[i].parent;
    lengths[i] = tree.nodes[i].name.size() + (parent == 0 ? 0 : lengths[parent] + between.size());
    whole += lengths[i];
  }
  const std::size_t most =
      whole <= most_text ? whole : std::max(least_path, most_text / tree.nodes.size());
  std::vector<std::string> paths;
  for (std::size_t i = 1; i < tree.nodes.size(); ++i) {
    const std::uint32_t parent = tree.nodes[i].parent;
    std::string path = parent == 0 ? "" : paths[parent - 1] + std::string(between);
    path += tree.nodes[i].name;
    std::size_t from = path.size() <= most ? 0 : path.size() - most;
    // Not within a character.
    while (from < path.size() && (static_cast<unsigned char>(path[from]) & 0xc0) == 0x80) ++from;
    paths.push_back(from == 0 ? std::move(path) : std::string(cut) + path.substr(from));
  }
  return paths;
}

ColumnTable table_of(const FlamePicture& picture) {
  const std::vector<FlameNode>& nodes = picture.tree.nodes;
  ColumnTable table{.columns = {}, .rows = nodes.size() - 1};
  Column path{.id = "path", .title = "Path", .about = "Phase or category, modules, operation"};
  set_texts(path, paths_of(picture.tree));
  table.columns.push_back(std::move(path));
  const Quantity quantity = picture.of == FlameOf::time ? Quantity::duration : Quantity::bytes;
  const auto add = [&](std::string id, std::string title, std::string about, CellLook look,
                       const auto& value) {
    Column column{.id = std::move(id),
                  .title = std::move(title),
                  .about = std::move(about),
                  .scale = "amount",
                  .quantity = quantity,
                  .look = look};
    column.is_signed = look == CellLook::difference;
    for (std::size_t i = 1; i < nodes.size(); ++i)
      column.numbers.push_back(static_cast<double>(value(nodes[i])));
    table.columns.push_back(std::move(column));
  };
  constexpr std::array ids{"first", "second", "what_if"};
  for (std::size_t run = 0; run < flame_runs; ++run) {
    const FlameRun& of = picture.runs[run];
    if (of.title.empty()) continue;
    const CellLook look = of.side == SideKind::predicted ? CellLook::predicted : CellLook::profiled;
    const std::string id = ids[run];
    add(id, of.title, "The node and all below it", look,
        [run](const FlameNode& node) { return node.whole[run]; });
    add(id + "_own", of.title + ", alone", "The node without those below it", look,
        [run](const FlameNode& node) { return node.own[run]; });
  }
  if (!picture.runs[0].title.empty() && !picture.runs[1].title.empty())
    add("difference", "First less second", "Above 0 where the upper picture has more",
        CellLook::difference, [](const FlameNode& node) { return node.whole[0] - node.whole[1]; });
  set_units(table);
  return table;
}

bool contains(std::string_view text, std::string_view wanted) {
  const auto lower = [](unsigned char letter) { return std::tolower(letter); };
  return std::search(text.begin(), text.end(), wanted.begin(), wanted.end(),
                     [&](unsigned char a, unsigned char b) { return lower(a) == lower(b); }) !=
         text.end();
}

/// The child of that name; none: there is none.
std::optional<std::uint32_t> child_of(const FlameTree& tree, std::uint32_t parent,
                                      const std::string& name) {
  const FlameNode& node = tree.nodes[parent];
  for (std::uint32_t child = node.first_child; child < node.first_child + node.child_count; ++child)
    if (tree.nodes[child].name == name) return child;
  return std::nullopt;
}

}  // namespace

FlamePicture flame_picture(const FlameQuestion& question, const std::stop_token& stop) {
  FlamePicture picture{.of = question.of};
  Runs runs = runs_of(question);
  std::array<std::span<const FlameStack>, flame_runs> stacks;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    if (!runs[run]) continue;
    picture.runs[run] = runs[run]->run;
    stacks[run] = runs[run]->stacks;
  }
  if (stop.stop_requested()) return picture;
  picture.tree = flame_tree(stacks[0], stacks[1], stacks[2]);
  if (picture.tree.empty()) picture.problem = problem_of(question);
  picture.table = std::make_shared<const ColumnTable>(table_of(picture));
  return picture;
}

std::string amount_text(FlameOf of, std::int64_t amount) {
  return of == FlameOf::time ? rounded_text(Duration{amount}) : rounded_text(Bytes{amount});
}

std::vector<FlameBox> flame_boxes(const FlameTree& tree, std::size_t run, std::uint32_t zoomed,
                                  double least, FlameScale scale) {
  const FlameNode& top = tree.nodes[zoomed];
  const std::int64_t widest = scale == FlameScale::own
                                  ? top.whole[run]
                                  : *std::max_element(top.whole.begin(), top.whole.end());
  const auto width_of = [&](std::uint32_t node) {
    return static_cast<double>(tree.nodes[node].whole[run]) /
           static_cast<double>(std::max<std::int64_t>(widest, 1));
  };
  std::vector<FlameBox> boxes;
  if (top.whole[run] == 0) return boxes;
  for (std::uint32_t node = zoomed; node != FlameNode::none; node = tree.nodes[node].parent)
    boxes.push_back({.node = node, .left = 0, .width = width_of(zoomed)});
  std::reverse(boxes.begin(), boxes.end());
  // Each box is followed by its children, a level behind the other.
  for (std::size_t at = boxes.size() - 1; at < boxes.size(); ++at) {
    const FlameNode& node = tree.nodes[boxes[at].node];
    double left = boxes[at].left;
    for (std::uint32_t child = node.first_child; child < node.first_child + node.child_count;
         ++child) {
      const double width = width_of(child);
      if (width >= least && width > 0) boxes.push_back({child, left, width});
      left += width;
    }
  }
  return boxes;
}

FlameMatches flame_matches(const FlameTree& tree, std::string_view text) {
  FlameMatches matches;
  if (text.empty() || tree.empty()) return matches;
  std::vector<bool> is_within(tree.nodes.size());
  for (std::uint32_t i = 1; i < tree.nodes.size(); ++i) {
    const FlameNode& node = tree.nodes[i];
    const bool is_match = contains(node.name, text);
    is_within[i] = is_match || is_within[node.parent];
    if (!is_match) continue;
    matches.nodes.push_back(i);
    if (is_within[node.parent]) continue;
    for (std::size_t run = 0; run < flame_runs; ++run)
      matches.amounts[run] = held_sum(matches.amounts[run], node.whole[run]);
  }
  return matches;
}

std::uint32_t same_node(const FlameTree& from, std::uint32_t node, const FlameTree& to) {
  if (to.nodes.empty() || node >= from.nodes.size()) return 0;
  std::vector<std::uint32_t> path;
  for (; node != 0; node = from.nodes[node].parent) path.push_back(node);
  std::uint32_t at = 0;
  for (; !path.empty(); path.pop_back()) {
    const auto child = child_of(to, at, from.nodes[path.back()].name);
    if (!child) break;
    at = *child;
  }
  return at;
}

}  // namespace shardscope::gui
