// The order in which a device works.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/schedule/schedule.h"

namespace shardscope {

/// Work that was queued once and is kept, to be queued again at once with the same operands.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Queues all of it, on the compute stream.
  virtual void launch() = 0;
};

/// What was kept between begin_capture() and end_capture(); without a graph, why there is none.
struct Capture {
  std::unique_ptr<DeviceGraph> graph;
  std::string why_not;
};

/// Streams run beside each other, what is queued on one of them in order. Kernels, copies and
/// collectives go to the stream that is selected; events are all that makes one wait for another.
/// Called from one thread.
class DeviceStreams {
 public:
  virtual ~DeviceStreams() = default;

  /// Stream::compute is selected at the start.
  virtual void select(Stream stream) = 0;
  /// The selected stream as the device's libraries know it: a cudaStream_t; null on the host.
  virtual void* selected_handle() const { return nullptr; }
  /// Whether work is being kept now and not run.
  virtual bool is_capturing() const { return false; }
  /// Takes events 0 .. count - 1 ahead of time; those that were taken before stay.
  virtual void make_events(std::size_t count) = 0;
  /// The event comes when all that was queued on the selected stream so far has ended.
  virtual void record(std::size_t event) = 0;
  /// What is queued on the selected stream from now on starts after the event, as last recorded.
  virtual void wait_for(std::size_t event) = 0;

  /// Whether work can be kept as a graph.
  virtual bool has_graphs() const = 0;
  /// From now on work is kept and not run. It starts on the compute stream and must end there: what
  /// is queued on another stream waits for an event, and something waits for its last one.
  virtual void begin_capture() = 0;
  virtual Capture end_capture() = 0;
};

/// Of a device whose work has ended when the call returns.
DeviceStreams& host_streams();

}  // namespace shardscope
