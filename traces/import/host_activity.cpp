#include "traces/import/host_activity.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "traces/running_account.h"

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

/// Which events are spans of the host's threads.
class HostSpans {
 public:
  explicit HostSpans(const ImportedTrace& trace) : trace_(trace) {
    for (const std::string& category : trace.categories)
      is_host_.push_back(category != "Trace" && category != "gpu_user_annotation");
  }
  bool has(std::uint32_t event) const {
    return trace_.events.phase[event] == 'X' && is_host_[trace_.events.category[event]] &&
           trace_.track_of(event).kind == TrackKind::thread;
  }

 private:
  const ImportedTrace& trace_;
  std::vector<bool> is_host_;
};

/// The host's spans of all threads, in order of start: each thread's are in order already.
class InOrderOfStart {
 public:
  explicit InOrderOfStart(const ImportedTrace& trace) : trace_(trace), spans_(trace) {
    const std::vector<std::uint32_t>& order = trace.by_track;
    for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      const std::uint32_t track = trace.events.track[order[begin]];
      end = begin;
      while (end < order.size() && trace.events.track[order[end]] == track) ++end;
      push({.at = begin, .end = end});
    }
  }

  /// None after the last.
  std::optional<std::uint32_t> next() {
    if (heap_.empty()) return std::nullopt;
    std::pop_heap(heap_.begin(), heap_.end(), later());
    const Thread thread = heap_.back();
    heap_.pop_back();
    push({.at = thread.at + 1, .end = thread.end});
    return trace_.by_track[thread.at];
  }

 private:
  /// The rest of a thread's place in by_track.
  struct Thread {
    std::size_t at = 0, end = 0;
  };

  void push(Thread thread) {
    while (thread.at < thread.end && !spans_.has(trace_.by_track[thread.at])) ++thread.at;
    if (thread.at == thread.end) return;
    heap_.push_back(thread);
    std::push_heap(heap_.begin(), heap_.end(), later());
  }
  std::function<bool(const Thread&, const Thread&)> later() const {
    return [this](const Thread& a, const Thread& b) {
      const auto start = [&](const Thread& of) {
        return trace_.events.start_ns[trace_.by_track[of.at]];
      };
      return start(a) > start(b);
    };
  }

  const ImportedTrace& trace_;
  HostSpans spans_;
  std::vector<Thread> heap_;
};

}  // namespace

std::vector<std::uint32_t> host_spans(const ImportedTrace& trace) {
  const HostSpans host(trace);
  std::vector<std::uint32_t> spans;
  for (std::uint32_t i = 0; i < trace.events.size(); ++i)
    if (host.has(i)) spans.push_back(i);
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
  RunningAccount busy, calling, by_class;
  InOrderOfStart spans(trace);
  while (const std::optional<std::uint32_t> event = spans.next()) {
    const TimeWindow window = window_of(trace, *event);
    const SpanClass counts_as = host_class(trace, *event);
    const bool calls_a_library = is_call(trace.name_of(*event));
    busy.add(window, SpanClass::compute);
    if (calls_a_library) calling.add(window, SpanClass::communication);
    by_class.add(window, counts_as);
    ++figures.events;
    threads.insert(trace.events.track[*event]);
    figures.without_duration += window.begin == window.end;
    if (!figures.window) figures.window = window;
    figures.window->end = std::max(figures.window->end, window.end);
    if (calls_a_library) add_call(calls, trace.name_of(*event), window.length());
  }
  const TimeWindow window = figures.window.value_or(TimeWindow{});
  figures.threads = static_cast<std::int64_t>(threads.size());
  figures.busy = busy.account(window).compute;
  figures.calling = calling.account(window).communication;
  figures.time = by_class.account(window);
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
