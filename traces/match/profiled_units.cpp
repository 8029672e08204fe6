#include "traces/match/profiled_units.h"

#include <algorithm>
#include <array>

namespace shardscope {
namespace {

constexpr std::string_view fsdp1_forward = "FullyShardedDataParallel.forward";
constexpr std::string_view fsdp1_prefetch_suffix = "prefetch";
constexpr std::string_view fsdp2_prefix = "FSDP::";
constexpr std::string_view ddp_forward = "DistributedDataParallel.forward";

/// What FSDP2 does for a unit. Source: torch 2.15 distributed/fsdp/_fully_shard/
/// _fsdp_param_group.py, _with_fqn.
constexpr std::array<std::string_view, 9> fsdp2_work{
    "pre_forward",           "post_forward",
    "pre_backward",          "all_gather",
    "all_gather_copy_out",   "post_backward_accumulate",
    "post_backward_reshard", "post_backward_reduce",
    "post_backward_rs_wait"};

constexpr std::array<std::string_view, 3> wrappers{"_fsdp_wrapped_module",
                                                   "_checkpoint_wrapped_module", "_orig_mod"};

std::string without_wrappers_of_one(std::string_view name) {
  std::string result;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    const bool is_wrapper = std::find(wrappers.begin(), wrappers.end(), part) != wrappers.end();
    if (!is_wrapper && !part.empty()) result += (result.empty() ? "" : ".") + std::string(part);
    begin = end + 1;
  }
  return result;
}

}  // namespace

std::string_view name_of(ProfiledRuntime runtime) {
  constexpr std::array<std::string_view, 4> names{"none", "ddp", "fsdp1", "fsdp2"};
  return names[static_cast<std::size_t>(runtime)];
}

std::optional<std::string> fsdp2_unit_of(std::string_view annotation) {
  if (!annotation.starts_with(fsdp2_prefix)) return std::nullopt;
  annotation.remove_prefix(fsdp2_prefix.size());
  const std::size_t space = annotation.find(' ');
  const std::string_view work = annotation.substr(0, space);
  if (std::find(fsdp2_work.begin(), fsdp2_work.end(), work) == fsdp2_work.end())
    return std::nullopt;
  if (space == std::string_view::npos) return "";
  std::string_view unit = annotation.substr(space + 1);
  unit = unit.substr(0, unit.find(" [pg="));
  if (!unit.starts_with('(') || !unit.ends_with(')')) return std::nullopt;
  return without_wrappers(unit.substr(1, unit.size() - 2));
}

std::string without_wrappers(std::string_view names) {
  constexpr std::string_view between = ", ";
  std::string result;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(between, begin), names.size());
    if (begin > 0) result += between;
    result += without_wrappers_of_one(names.substr(begin, end - begin));
    begin = end + between.size();
  }
  return result;
}

ProfiledUnits::ProfiledUnits(const ImportedTrace& trace, const HostTree& tree)
    : trace_(&trace), tree_(&tree) {
  if (has(fsdp2_prefix)) {
    runtime_ = ProfiledRuntime::fsdp2;
    read_fsdp2();
  } else if (has("FullyShardedDataParallel.")) {
    runtime_ = ProfiledRuntime::fsdp1;
    read_fsdp1();
  } else if (has("DistributedDataParallel.")) {
    runtime_ = ProfiledRuntime::ddp;
  }
}

bool ProfiledUnits::has(std::string_view prefix) const {
  return std::any_of(trace_->names.begin(), trace_->names.end(),
                     [&](const std::string& name) { return name.starts_with(prefix); });
}

std::optional<std::size_t> ProfiledUnits::index_of(const std::string& name) const {
  const auto found = std::find_if(units_.begin(), units_.end(),
                                  [&](const ProfiledUnit& unit) { return unit.name == name; });
  if (found == units_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - units_.begin());
}

void ProfiledUnits::read_fsdp2() {
  std::vector<std::optional<std::string>> unit_of_name;
  for (const std::string& name : trace_->names) unit_of_name.push_back(fsdp2_unit_of(name));
  for (const std::uint32_t event : trace_->by_track) {
    const auto& unit = unit_of_name[trace_->events.name[event]];
    if (unit && trace_->track_of(event).kind == TrackKind::thread && !index_of(*unit))
      units_.push_back({.name = *unit});
  }
}

/// The forward that encloses all others begins a tree; the first tree tells the units, and each
/// later one of as many forwards is the same units again.
void ProfiledUnits::read_fsdp1() {
  std::vector<std::uint32_t> forwards;
  for (const std::uint32_t event : trace_->by_track)
    if (trace_->name_of(event) == fsdp1_forward &&
        trace_->track_of(event).kind == TrackKind::thread)
      forwards.push_back(event);
  std::map<std::uint32_t, int> depths;
  std::size_t place = 0;
  for (const std::uint32_t event : forwards) {
    int depth = 0;
    for (std::uint32_t outer = tree_->around(event); outer != no_event;
         outer = tree_->around(outer)) {
      const auto known = depths.find(outer);
      if (known == depths.end()) continue;
      depth = known->second + 1;
      break;
    }
    depths[event] = depth;
    if (depth == 0) place = 0;
    const ProfiledUnit unit{.name = {}, .depth = depth};
    if (place == units_.size() && (depth > 0 || units_.empty())) units_.push_back(unit);
    if (place < units_.size() && units_[place] == unit) unit_of_forward_[event] = place;
    ++place;
  }
}

std::optional<std::size_t> ProfiledUnits::unit_of(std::uint32_t event) const {
  for (std::uint32_t outer = tree_->around(event); outer != no_event;
       outer = tree_->around(outer)) {
    const std::string_view name = trace_->name_of(outer);
    if (runtime_ == ProfiledRuntime::fsdp2) {
      if (const auto unit = fsdp2_unit_of(name)) return index_of(*unit);
    } else if (runtime_ == ProfiledRuntime::fsdp1) {
      if (name.starts_with("FullyShardedDataParallel.") && name.ends_with(fsdp1_prefetch_suffix))
        return std::nullopt;  // of the next unit, which it does not name
      const auto forward = unit_of_forward_.find(outer);
      if (forward != unit_of_forward_.end()) return forward->second;
    }
  }
  return std::nullopt;
}

}  // namespace shardscope
