// Step time and memory of a run, from what other programs logged of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/quantities.h"
#include "traces/measured/metric_log.h"

namespace shardscope {

/// How long a step took: the median over intervals, and where nine of ten of them lie.
struct MeasuredStepTime {
  Duration median, low, high;
  std::int64_t intervals = 0;
  std::string source;  ///< "tb/events...: times between the entries of train/loss"
};

/// Whose bytes a memory figure counts.
enum class MeasuredMemoryKind : std::uint8_t {
  device,     ///< all that is used of a device, as the driver says
  reserved,   ///< by PyTorch's caching allocator
  active,     ///< the same, in use or waited for
  allocated,  ///< the same, by tensors
  host,       ///< resident memory of a process
};
std::string_view name_of(MeasuredMemoryKind kind);

/// The most that was seen, of the device or process that had most.
struct MeasuredMemory {
  MeasuredMemoryKind kind = MeasuredMemoryKind::device;
  Bytes bytes;
  std::int64_t samples = 0;
  std::string source;
};

struct MeasuredRun {
  std::optional<MeasuredStepTime> step_time;
  std::vector<MeasuredMemory> memory;  ///< one a kind at most, in the kinds' order
  std::optional<Duration> elapsed;     ///< of a whole job, as Slurm says it
  std::vector<std::string> notes;
};

/// Rules, the first that holds:
/// - a series whose name says a time of a step and its unit ("perf/step_time_s", torchtitan's
///   "time_metrics/end_to_end(s)", Megatron's "iteration-time") has the step times;
/// - else the times between entries of the series with most entries, divided by the steps between
///   them.
/// The first interval is left out where there are three: it holds compilation and warm-up. Memory
/// is of series whose names say whose memory it is and its unit.
MeasuredRun measured_run(const std::vector<MetricLog>& logs);

}  // namespace shardscope
