#include "traces/import/hta_events.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <unordered_map>

#include "traces/import/json_scanner.h"
#include "traces/import/kineto_arguments.h"

namespace shardscope {
namespace {

constexpr std::string_view step_word = "ProfilerStep";
constexpr std::string_view synchronization = "cuda_sync";
constexpr std::int64_t no_stream = -1;

bool is_span(const ImportedTrace& trace, std::uint32_t event) {
  return trace.events.phase[event] == 'X' && trace.category_of(event) != "Trace";
}

/// Of the events that are no activities, those that HTA runs on the device by their name alone.
bool is_on_device_by_name(std::string_view name) {
  return name == "Event Sync" || name == "Context Sync";
}

/// Microseconds as the double that a JSON reader makes of them.
double microseconds(std::int64_t ns) {
  return static_cast<double>(static_cast<long double>(ns) / 1000.0L);
}

std::int64_t nanoseconds(double whole_us) { return static_cast<std::int64_t>(whole_us) * 1000; }

bool has_fractions(const ImportedTrace& trace) {
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    if (trace.events.start_ns[i] % 1000 != 0) return true;
  }
  return false;
}

ActivityArguments arguments_of(const ImportedTrace& trace, std::uint32_t event) {
  const std::string text = trace.text_of(event);
  ActivityArguments arguments;
  for_each_member(text, [&](std::string_view key, std::string_view value) {
    if (key == "args") arguments = activity_arguments(value);
  });
  return arguments;
}

class Reader {
 public:
  Reader(const ImportedTrace& trace, const HtaReading& reading)
      : trace_(trace),
        leaves_out_(reading.leaves_out_last_step),
        rounds_(reading.rounds_times && has_fractions(trace)) {}

  std::vector<HtaEvent> events() {
    for (std::uint32_t i = 0; i < trace_.events.size(); ++i) {
      if (is_span(trace_, i)) sort_in(i);
    }
    std::vector<HtaEvent> kept;
    for (auto& [event, correlation] : found_) {
      const auto launches = launches_.find(correlation);
      if (launches != launches_.end()) {
        add(event, launches->second, kept);
      } else if (is_before_last(event, correlation)) {
        if (correlation != 0) event.launched = first_event();
        kept.push_back(event);
      }
    }
    return kept;
  }

 private:
  TimeWindow window_of(std::uint32_t event) const {
    const std::int64_t start = trace_.events.start_ns[event], end = trace_.events.end_ns(event);
    if (!rounds_) return {{start}, {end}};
    const double start_us = microseconds(start);
    const double end_us = start_us + microseconds(end - start);
    return {{nanoseconds(std::ceil(start_us))}, {nanoseconds(std::floor(end_us))}};
  }

  void sort_in(std::uint32_t i) {
    const ImportedTrack& track = trace_.track_of(i);
    if (track.kind == TrackKind::stream) return add_found(i, track.stream, trace_.events.link[i]);
    if (trace_.category_of(i) == synchronization) {
      const ActivityArguments arguments = arguments_of(trace_, i);
      const std::int64_t stream = arguments.stream.value_or(no_stream);
      if (stream != no_stream) return add_found(i, stream, arguments.correlation.value_or(0));
      if (is_on_device_by_name(trace_.name_of(i))) return;
    }
    const Duration begin = window_of(i).begin;
    if (trace_.name_of(i).find(step_word) != std::string_view::npos)
      last_step_ = std::max(last_step_, begin.ns);
    if (trace_.events.link[i] != 0) launches_[trace_.events.link[i]].push_back(begin);
  }

  void add_found(std::uint32_t event, std::int64_t stream, std::int64_t correlation) {
    found_.push_back({{.event = event,
                       .stream = stream,
                       .span_class = trace_.events.span_class[event],
                       .is_kernel = trace_.track_of(event).kind == TrackKind::stream,
                       .window = window_of(event),
                       .launched = {}},
                      correlation});
  }

  /// What HTA takes for the call where the trace has none: row 0.
  std::optional<Duration> first_event() const {
    return is_span(trace_, 0) ? std::optional(window_of(0).begin) : std::nullopt;
  }

  /// An event without a correlation has its own begin to go by, one with the call's alone.
  bool is_before_last(const HtaEvent& event, std::int64_t correlation) const {
    return !leaves_out_ || (correlation == 0 && event.window.begin.ns < last_step_);
  }

  /// Of several calls that launched it, the last in the file is the one that HTA finds.
  void add(HtaEvent event, const std::vector<Duration>& launches, std::vector<HtaEvent>& kept) {
    event.launched = launches.back();
    if (!leaves_out_) return kept.push_back(event);
    for (const Duration launch : launches) {
      if (launch.ns < last_step_) kept.push_back(event);
    }
  }

  struct Found {
    HtaEvent event;
    std::int64_t correlation = 0;
  };

  const ImportedTrace& trace_;
  const bool leaves_out_;
  const bool rounds_;
  std::vector<Found> found_;
  std::unordered_map<std::int64_t, std::vector<Duration>> launches_;  ///< by correlation
  std::int64_t last_step_ = std::numeric_limits<std::int64_t>::min();
};

}  // namespace

HtaReading hta_reading(const std::vector<ImportedTrace>& traces, bool rounds_times) {
  std::set<std::string_view> steps;
  for (const ImportedTrace& trace : traces) {
    for (std::uint32_t i = 0; i < trace.events.size(); ++i) {
      const std::string_view name = trace.name_of(i);
      if (is_span(trace, i) && name.find(step_word) != name.npos) steps.insert(name);
    }
  }
  return {.rounds_times = rounds_times, .leaves_out_last_step = steps.size() > 1};
}

std::vector<HtaEvent> hta_events(const ImportedTrace& trace, const HtaReading& reading) {
  return Reader(trace, reading).events();
}

}  // namespace shardscope
