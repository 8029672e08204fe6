#include "traces/import/host_activity.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace shardscope {
namespace {

constexpr std::string_view step_prefix = "ProfilerStep#";

bool is_call(std::string_view name) {
  return name.starts_with("nccl:") || name.starts_with("gloo:");
}

TimeWindow window_of(const ImportedTrace& trace, std::uint32_t event) {
  return {{trace.events.start_ns[event]}, {trace.events.end_ns(event)}};
}

void add_call(std::map<std::string_view, CommunicationCalls>& calls, std::string_view name,
              Duration duration) {
  CommunicationCalls& of_name = calls[name];
  ++of_name.number;
  of_name.sum += duration;
}

}  // namespace

std::vector<std::uint32_t> host_spans(const ImportedTrace& trace) {
  std::vector<bool> is_host;
  for (const std::string& category : trace.categories)
    is_host.push_back(category != "Trace" && category != "gpu_user_annotation");
  std::vector<std::uint32_t> spans;
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    if (trace.events.phase[i] == 'X' && is_host[trace.events.category[i]] &&
        trace.track_of(i).kind == TrackKind::thread)
      spans.push_back(i);
  }
  return spans;
}

SpanClass host_class(const ImportedTrace& trace, std::uint32_t event) {
  if (is_call(trace.name_of(event))) return SpanClass::communication;
  return trace.category_of(event) == "cpu_op" ? SpanClass::compute : SpanClass::annotation;
}

HostFigures host_figures(const ImportedTrace& trace) {
  HostFigures figures;
  std::set<std::uint32_t> threads;
  std::map<std::string_view, CommunicationCalls> calls;
  std::vector<TimeWindow> busy, calling;
  for (const std::uint32_t event : host_spans(trace)) {
    const TimeWindow window = window_of(trace, event);
    busy.push_back(window);
    threads.insert(trace.events.track[event]);
    figures.without_duration += window.begin == window.end;
    if (!figures.window) figures.window = window;
    figures.window->begin = std::min(figures.window->begin, window.begin);
    figures.window->end = std::max(figures.window->end, window.end);
    if (!is_call(trace.name_of(event))) continue;
    calling.push_back(window);
    add_call(calls, trace.name_of(event), window.length());
  }
  figures.events = static_cast<std::int64_t>(busy.size());
  figures.threads = static_cast<std::int64_t>(threads.size());
  figures.busy = IntervalUnion(std::move(busy)).length();
  figures.calling = IntervalUnion(std::move(calling)).length();
  for (auto& [name, of_name] : calls) {
    of_name.name = name;
    figures.calls.push_back(std::move(of_name));
  }
  return figures;
}

std::vector<ProfilerStep> profiler_steps(const ImportedTrace& trace) {
  std::vector<ProfilerStep> steps;
  for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
    std::string_view name = trace.name_of(i);
    if (!name.starts_with(step_prefix) || trace.events.phase[i] != 'X') continue;
    if (trace.track_of(i).kind != TrackKind::thread) continue;
    name.remove_prefix(step_prefix.size());
    ProfilerStep step{.event = i, .number = -1, .window = window_of(trace, i)};
    std::from_chars(name.data(), name.data() + name.size(), step.number);
    steps.push_back(step);
  }
  std::stable_sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) {
    return a.number != b.number ? a.number < b.number : a.window.begin < b.window.begin;
  });
  return steps;
}

}  // namespace shardscope
