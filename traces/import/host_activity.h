// What the host did in an imported trace: operators, calls and annotations on its threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "traces/analysis.h"
#include "traces/import/imported_trace.h"
#include "traces/intervals.h"

namespace shardscope {

/// Spans of the host's threads: all but a device's activities and annotations, and the profiler's
/// own window ("Trace"). In the order of the file.
std::vector<std::uint32_t> host_spans(const ImportedTrace& trace);

/// What a span of the host counts as where no device is in the trace: operators as compute, calls
/// of gloo and nccl as communication, all else as annotation.
SpanClass host_class(const ImportedTrace& trace, std::uint32_t event);

/// Calls into a communication library of one name ("nccl:all_reduce", "gloo:broadcast").
struct CommunicationCalls {
  std::string name;
  std::int64_t number = 0;
  Duration sum;
};

struct HostFigures {
  std::int64_t events = 0;
  std::int64_t threads = 0;
  std::optional<TimeWindow> window;  ///< none without events
  Duration busy;                     ///< length of the union of all spans of all threads
  std::int64_t without_duration = 0;
  std::vector<CommunicationCalls> calls;  ///< by name
  Duration calling;                       ///< length of the union of the calls
  Accounting time;                        ///< of the window, by `host_class`
};
/// Walks over the spans in order of their starts, and holds none of them.
HostFigures host_figures(const ImportedTrace& trace);

/// A training step as the profiler marks it: "ProfilerStep#N".
struct ProfilerStep {
  std::uint32_t event = 0;
  std::int64_t number = 0;
  TimeWindow window;
};

/// The host's, by number and then start.
std::vector<ProfilerStep> profiler_steps(const ImportedTrace& trace);

}  // namespace shardscope
