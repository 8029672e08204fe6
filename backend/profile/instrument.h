// One source of measurements during a profiling window.
#pragma once

#include <cstdint>

#include "backend/executor/probe.h"
#include "traces/trace.h"

namespace shardscope {

/// The window whose trace an instrument adds to.
struct MeasuredWindow {
  std::int64_t base_monotonic_ns = 0;  ///< monotonic_ns() at the trace's time 0
  std::int64_t first_step = 0;         ///< training steps, both in the window
  std::int64_t last_step = 0;
};

/// Measures while a window is open, and says afterwards what it saw. One object serves all windows
/// of a run, one after the other; what it keeps for a window it uses again for the next. Where
/// something cannot be measured, that is a note in the trace and not an error.
class Instrument {
 public:
  virtual ~Instrument() = default;

  /// Who hears of the window's steps; null: nobody. The same as long as this lives.
  virtual Probe* probe() { return nullptr; }

  /// Around the steps of a window, on the thread that trains, while the device is idle. Memory for
  /// the window is taken in start(): inside steps nothing is allocated.
  virtual void start() {}
  virtual void stop() {}

  /// Does it know, of steps that are replayed as a graph, when each operation ran? Then add_to()
  /// gives the operations' spans, and the window's steps are replayed; the first one is captured
  /// anew, in the probe's hearing.
  virtual bool times_replays() const { return false; }

  /// Adds what was measured between start() and stop(), after stop(), on any one thread: spans (at
  /// the end; on tracks of its own unless they are the operations' spans of replayed steps),
  /// counters, measures of spans (`OperationSpans` finds an operation's), and to Trace::recording
  /// what was lost or could not be measured.
  virtual void add_to(Trace& trace, const MeasuredWindow& window) = 0;
};

}  // namespace shardscope
