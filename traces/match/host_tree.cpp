#include "traces/match/host_tree.h"

namespace shardscope {
namespace {

/// Of an event that begins no earlier. What begins as the other ends is beside it.
bool encloses(const ImportedTrace& trace, std::uint32_t outer, std::uint32_t inner) {
  const EventColumns& events = trace.events;
  const bool is_behind = events.end_ns(outer) <= events.start_ns[inner] &&
                         events.start_ns[outer] < events.start_ns[inner];
  return !is_behind && events.end_ns(outer) >= events.end_ns(inner);
}

}  // namespace

HostTree::HostTree(const ImportedTrace& trace)
    : trace_(&trace), around_(trace.events.size(), no_event) {
  std::vector<std::uint32_t> open;
  std::uint32_t track = UINT32_MAX;
  for (const std::uint32_t event : trace.by_track) {
    if (trace.events.track[event] != track) open.clear();
    track = trace.events.track[event];
    if (trace.tracks[track].kind != TrackKind::thread) continue;
    if (trace.category_of(event) == "Trace") continue;
    while (!open.empty() && !encloses(trace, open.back(), event)) open.pop_back();
    if (!open.empty()) around_[event] = open.back();
    open.push_back(event);
    if (trace.events.link[event] != 0) launch_of_.try_emplace(trace.events.link[event], event);
  }
}

std::uint32_t HostTree::on_host(std::uint32_t event) const {
  if (trace_->track_of(event).kind == TrackKind::thread) return event;
  const auto launch = launch_of_.find(trace_->events.link[event]);
  const bool is_known = trace_->events.link[event] != 0 && launch != launch_of_.end();
  return is_known ? launch->second : event;
}

}  // namespace shardscope
