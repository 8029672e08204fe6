// Trace: spans on tracks and memory over time, predicted, profiled or imported. One value per rank.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/quantities.h"
#include "core/base/ranks.h"
#include "core/schedule/collective_choice.h"
#include "core/schedule/schedule.h"

namespace shardscope {

enum class TraceKind : std::uint8_t { predicted, profiled, imported };
std::string_view name_of(TraceKind kind);

/// What a span counts as in the accounting. Memset counts as a copy; `host` and `annotation` count
/// nowhere.
enum class SpanClass : std::uint8_t { compute, communication, copy, host, annotation };
std::string_view name_of(SpanClass span_class);

/// One operation's run on one track. Names are interned in the trace.
struct Span {
  Duration start;  ///< since Trace::base
  Duration duration;
  std::uint32_t name = 0;   ///< index into Trace::names
  std::uint16_t track = 0;  ///< index into Trace::tracks
  SpanClass span_class = SpanClass::compute;
  OperationId operation;  ///< of the schedule; none for imported spans
  std::int32_t step = 0;  ///< training step, from 1; 0: not known

  Duration end() const { return start + duration; }
  bool operator==(const Span&) const = default;
};

struct Track {
  std::string name;  ///< "compute", "unshard", ...
  Stream stream = Stream::compute;
  bool operator==(const Track&) const = default;
};

/// Live bytes from `time` on.
struct MemorySample {
  Duration time;
  OperationId operation;  ///< that changed it; none if unknown
  CategoryBytes live;
  Bytes active;    ///< these and blocks freed but still waited for; 0: not known
  Bytes reserved;  ///< segments held; 0: not known
  bool operator==(const MemorySample&) const = default;
};

/// Facts of an operation that a reader of the trace needs without the schedule (one per operation
/// id that occurs).
struct OperationFacts {
  OperationId operation;
  std::string name;
  OperationKind kind = OperationKind::compute;
  Phase phase = Phase::other;
  std::int32_t micro_batch = 0;
  std::string unit;
  Bytes bytes;
  Flops flops;
  std::string group;  ///< collectives
  Ranks ranks;
  std::int64_t elements_in = 0;
  std::int64_t elements_out = 0;
  Dtype dtype = Dtype::float32;
  CopyWay way = CopyWay::within;  ///< copies
  CollectiveChoice choice;        ///< of a collective that ran; empty where it is not known
  /// Of PyTorch's operators, indices into Trace::names: the module in whose forward or backward it
  /// runs, and Schedule::shapes' text.
  static constexpr std::uint32_t unnamed = UINT32_MAX;
  std::uint32_t module = unnamed;
  std::uint32_t shapes = unnamed;
  bool operator==(const OperationFacts&) const = default;
};

/// A quantity over time, beside the live bytes.
struct Counter {
  struct Sample {
    Duration time;  ///< since Trace::base; the value holds from here on
    std::int64_t value = 0;
    bool operator==(const Sample&) const = default;
  };
  std::string name;             ///< with its unit: "resident_bytes"
  std::vector<Sample> samples;  ///< by time
  bool operator==(const Counter&) const = default;
};

/// One figure that was measured of one span: instructions, cycles, time spent waiting.
struct SpanMeasure {
  std::uint32_t span = 0;     ///< index into Trace::spans
  std::uint16_t measure = 0;  ///< index into Trace::measures
  std::int64_t value = 0;
  bool operator==(const SpanMeasure&) const = default;
};

/// Memory that one owner had when the recording ended, as each source counts it; what a source
/// cannot tell is absent.
struct MemoryHolder {
  enum class Place : std::uint8_t { host, device };
  std::string owner;  ///< "arena", "libraries: code and data", "CUDA context"
  Place place = Place::host;
  std::optional<Bytes> planned;  ///< by the schedule
  std::optional<Bytes> held;     ///< as the system counts: resident, what n processes share 1/n; or
                                 ///< taken of the device
  std::optional<Bytes> recorded;  ///< by the owner's own books, or where it was asked for
  bool operator==(const MemoryHolder&) const = default;
};
std::string_view name_of(MemoryHolder::Place place);

/// How a trace was recorded, and what is known to be missing from it.
struct RecordingFacts {
  std::string clock;                       ///< how ranks' clocks were brought together; "": not
  std::optional<Duration> clock_residual;  ///< their times may be off by so much; none: not known
  std::int64_t dropped_records = 0;        ///< known to be lost
  std::vector<std::string> notes;          ///< what could not be measured, in words
  std::vector<MemoryHolder> memory;        ///< the rest last
  bool operator==(const RecordingFacts&) const = default;
};

struct Trace {
  TraceKind kind = TraceKind::profiled;
  int rank = 0;
  int world = 1;
  int local_rank = 0;        ///< ordinal of the rank's device on its host
  Bytes arena;               ///< size of the arena that the live bytes lie in; 0 if not known
  std::int64_t base_ns = 0;  ///< wall clock of time 0, Unix nanoseconds; 0 for predictions
  std::string device;        ///< "cpu: AMD EPYC, 1 thread"
  std::vector<std::string> names;
  std::vector<Track> tracks;
  std::vector<Span> spans;           ///< by start within a track
  std::vector<MemorySample> memory;  ///< by time
  std::vector<OperationFacts> facts;
  std::vector<Counter> counters;
  std::vector<std::string> measures;       ///< names with units: "instructions", "waiting_ns"
  std::vector<SpanMeasure> span_measures;  ///< by span, then by measure; one of each at most
  RecordingFacts recording;

  std::string_view name(const Span& span) const { return names[span.name]; }
  bool operator==(const Trace&) const = default;
};

/// Does the span occupy the device: compute, communication or a copy, on any track but the host's.
bool is_on_device(const Trace& trace, const Span& span);

/// The span's measures, which lie side by side.
std::span<const SpanMeasure> measures_of(const Trace& trace, std::size_t span);
/// The value of the measure of that name; none where the span has none.
std::optional<std::int64_t> measure_of(const Trace& trace, std::size_t span,
                                       std::string_view measure);
/// The number of a measure of that name, which the trace has from then on.
std::uint16_t intern_measure(Trace& trace, std::string_view name);
/// Brings `span_measures` into their order, after some were appended.
void sort_measures(Trace& trace);

/// Looks up operations' facts by id; refers to the trace it was made of, which must outlive it.
class FactsTable {
 public:
  explicit FactsTable(const Trace& trace);
  const OperationFacts* find(OperationId operation) const;  ///< null if the trace has none

 private:
  std::vector<const OperationFacts*> by_operation_;  ///< ascending
};

/// span = compute + exposed_communication + exposed_copy + idle, always.
struct Accounting {
  Duration span, compute, exposed_communication, exposed_copy, idle;
  Duration communication;  ///< union of collectives
  Duration overlap;        ///< of communication with compute
  bool operator==(const Accounting&) const = default;
};

}  // namespace shardscope
