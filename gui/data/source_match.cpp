#include "gui/data/source_match.h"

#include <algorithm>

namespace shardscope::gui {
namespace {

using Kind = MemorySource::Kind;

/// The number that sources of different kinds have in common: one process has one GPU.
std::optional<std::int64_t> place_of(const MemorySource& source) {
  if (source.rank) return source.rank;
  if (source.on && source.on->type != host_device_type) return source.on->id;
  return std::nullopt;
}

template <class Value>
bool disagree(const std::optional<Value>& a, const std::optional<Value>& b) {
  return a && b && *a != *b;
}

bool is_same(const MemorySource& a, const MemorySource& b) {
  if (a.kind == Kind::timeline) return a.index == b.index;  // it says neither rank nor device
  if (disagree(a.rank, b.rank) || disagree(a.on, b.on)) return false;
  return (a.rank && b.rank) || (a.on && b.on);
}

/// How good a match `source` is; 0: none.
int likeness(const MemorySource& source, const MemorySource& wanted) {
  // Several files may be of one device.
  if (source.kind == wanted.kind && is_same(source, wanted))
    return source.index == wanted.index ? 5 : 4;
  const bool is_of_all = source.side == SideKind::predicted || wanted.side == SideKind::predicted;
  if (source.kind == wanted.kind) return is_of_all ? 1 : 0;
  const bool is_same_place = place_of(source) && place_of(source) == place_of(wanted);
  // Beside what says no device, a process's GPU comes before its host memory.
  if (is_same_place) return source.on && source.on->type == host_device_type ? 2 : 3;
  return is_of_all ? 1 : 0;
}

}  // namespace

std::vector<MemorySource> sources_to_choose(const Scenario& scenario) {
  for (const SideKind kind : {SideKind::profiled, SideKind::predicted}) {
    const Side* side = scenario.side(kind);
    if (side == nullptr) continue;
    if (auto sources = memory_sources(*side); !sources.empty()) return sources;
  }
  return {};
}

std::optional<MemorySource> matching_source(const std::vector<MemorySource>& sources,
                                            const MemorySource& wanted) {
  const auto best = std::max_element(
      sources.begin(), sources.end(),
      [&](const auto& a, const auto& b) { return likeness(a, wanted) < likeness(b, wanted); });
  if (best == sources.end() || likeness(*best, wanted) == 0) return std::nullopt;
  return *best;
}

}  // namespace shardscope::gui
