#include "traces/perfetto_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "core/format/atomic_file.h"
#include "traces/launches.h"
#include "traces/perfetto_packets.h"

namespace shardscope {
namespace {

/// One rank's part of the file.
class RankWriter {
 public:
  RankWriter(const Trace& trace, std::int64_t origin_ns, PerfettoPackets& packets)
      : trace_(trace),
        origin_ns_(origin_ns),
        packets_(packets),
        facts_(trace),
        launches_(trace),
        process_(packets.process(trace.rank + 1,
                                 fmt::format("rank {} {}", trace.rank, name_of(trace.kind)))) {}

  void write() {
    for (std::size_t i = 0; i < trace_.tracks.size(); ++i) write_track(i);
    write_memory();
    write_counters();
  }

 private:
  std::uint64_t time(Duration time) const {
    return static_cast<std::uint64_t>(trace_.base_ns + time.ns - origin_ns_);
  }

  void write_track(std::size_t track) {
    std::vector<PerfettoSlice> slices;
    for (std::size_t i = 0; i < trace_.spans.size(); ++i) {
      if (trace_.spans[i].track == track) slices.push_back(slice_of(i));
    }
    std::stable_sort(slices.begin(), slices.end(),
                     [](const PerfettoSlice& a, const PerfettoSlice& b) {
                       return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
                     });
    packets_.slices(process_, trace_.tracks[track].name, slices);
  }

  /// Flows are numbered apart for each rank.
  std::uint64_t flow(std::size_t correlation) const {
    return correlation == 0 ? 0 : static_cast<std::uint64_t>(trace_.rank) << 32 | correlation;
  }

  PerfettoSlice slice_of(std::size_t index) const {
    const Span& span = trace_.spans[index];
    PerfettoSlice slice{.begin = time(span.start),
                        .end = time(span.end()),
                        .name = trace_.name(span),
                        .category = name_of(span.span_class),
                        .starts_flow = flow(launches_.correlation_of_host(index)),
                        .ends_flow = launches_.has_launch(index) ? flow(index + 1) : 0,
                        .arguments = {}};
    if (span.step > 0) slice.arguments.push_back({"step", std::int64_t{span.step}});
    if (const OperationFacts* facts = facts_.find(span.operation))
      add_facts(*facts, slice.arguments);
    for (const SpanMeasure& row : measures_of(trace_, index))
      slice.arguments.push_back({trace_.measures[row.measure], row.value});
    return slice;
  }

  static void add_facts(const OperationFacts& facts, std::vector<PerfettoArgument>& arguments) {
    arguments.push_back({"operation", static_cast<std::int64_t>(facts.operation.value)});
    arguments.push_back({"phase", std::string(name_of(facts.phase))});
    if (!facts.unit.empty()) arguments.push_back({"unit", facts.unit});
    if (facts.bytes > Bytes{}) arguments.push_back({"bytes", facts.bytes.count});
    if (!is_collective(facts.kind)) return;
    arguments.push_back({"collective", std::string(name_of(facts.kind))});
    arguments.push_back({"group", facts.group});
    arguments.push_back({"elements_in", facts.elements_in});
    arguments.push_back({"elements_out", facts.elements_out});
    arguments.push_back({"dtype", std::string(name_of(facts.dtype))});
    if (facts.choice == CollectiveChoice{}) return;
    arguments.push_back({"algorithm", facts.choice.algorithm});
    arguments.push_back({"protocol", facts.choice.protocol});
    arguments.push_back({"channels", static_cast<std::int64_t>(facts.choice.channels)});
  }

  void write_memory() {
    if (trace_.memory.empty()) return;
    std::vector<std::uint64_t> counters;
    for (const MemoryCategory category : memory_categories)
      counters.push_back(packets_.bytes_counter(process_, name_of(category)));
    const bool is_held = std::any_of(trace_.memory.begin(), trace_.memory.end(),
                                     [](const auto& sample) { return sample.reserved > Bytes{}; });
    std::optional<std::uint64_t> active, reserved;
    if (is_held) {
      active = packets_.bytes_counter(process_, "active");
      reserved = packets_.bytes_counter(process_, "reserved");
    }
    for (const MemorySample& sample : trace_.memory) {
      for (std::size_t i = 0; i < counters.size(); ++i)
        packets_.count(counters[i], time(sample.time), sample.live[memory_categories[i]].count);
      if (active) packets_.count(*active, time(sample.time), sample.active.count);
      if (reserved) packets_.count(*reserved, time(sample.time), sample.reserved.count);
    }
  }

  void write_counters() {
    for (const Counter& counter : trace_.counters) {
      const std::uint64_t track = counter.name.ends_with("_bytes")
                                      ? packets_.bytes_counter(process_, counter.name)
                                      : packets_.counter(process_, counter.name);
      for (const Counter::Sample& sample : counter.samples)
        packets_.count(track, time(sample.time), sample.value);
    }
  }

  const Trace& trace_;
  std::int64_t origin_ns_;
  PerfettoPackets& packets_;
  FactsTable facts_;
  LaunchTable launches_;
  std::uint64_t process_;
};

std::int64_t first_ns(const Trace& trace) {
  std::int64_t first = 0;
  for (const Span& span : trace.spans) first = std::min(first, span.start.ns);
  for (const MemorySample& sample : trace.memory) first = std::min(first, sample.time.ns);
  for (const Counter& counter : trace.counters) {
    for (const Counter::Sample& sample : counter.samples) first = std::min(first, sample.time.ns);
  }
  return trace.base_ns + first;
}

}  // namespace

bool is_perfetto_name(const std::filesystem::path& path) {
  return path.extension() == ".pftrace" || path.extension() == ".perfetto-trace";
}

std::string perfetto_trace(std::span<const Trace> ranks) {
  std::string bytes;
  PerfettoPackets packets([&](std::string_view packet) { bytes += packet; });
  std::int64_t origin_ns = 0;  // Perfetto's times are never negative
  for (const Trace& trace : ranks) origin_ns = std::min(origin_ns, first_ns(trace));
  for (const Trace& trace : ranks) RankWriter(trace, origin_ns, packets).write();
  return bytes;
}

void write_perfetto_trace(std::span<const Trace> ranks, const std::filesystem::path& path) {
  write_atomically(path, perfetto_trace(ranks));
}

}  // namespace shardscope
