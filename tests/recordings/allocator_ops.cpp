// Plain sequences of requests to the caching allocator.
#include <algorithm>
#include <map>
#include <optional>

#include "core/base/error.h"
#include "sim/allocator/caching_allocator.h"
#include "tests/recordings/allocator.h"
#include "tests/recordings/json_difference.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

/// Of the recording: 0 is the default stream, n the n-th torch.cuda.Stream().
DeviceStream stream_of(std::uint32_t number) {
  return number == 0 ? default_stream : pool_stream(number - 1, 0);
}

int number_of(DeviceStream stream) {
  int number = 0;
  while (stream_of(static_cast<std::uint32_t>(number)) != stream) ++number;
  return number;
}

Bytes memory_of(const Json& settings) {
  return {static_cast<std::int64_t>(settings.value("mem_gib", 80.0) * 1073741824.0)};
}

/// Plays the operations of one case, and keeps what the recording keeps.
class Sequence {
 public:
  explicit Sequence(const Json& settings)
      : lags_(settings.value("lag", 0) != 0),
        allocator_(parse_allocator_settings(settings.value("conf", ""), "conf"),
                   {.total = memory_of(settings)}, events()) {
    allocator_.keep_trace();
  }

  /// [allocated, active, requested, reserved, 1 if it ended in out-of-memory]
  Json after(const Json& op) {
    const bool failed = !play(op);
    const AllocatorStatistics& s = allocator_.statistics();
    return {s.allocated_bytes.current, s.active_bytes.current, s.requested_bytes.current,
            s.reserved_bytes.current, failed ? 1 : 0};
  }
  const CachingAllocator& allocator() const { return allocator_; }

 private:
  DeviceEvents& events() {
    if (lags_) return host_bound_;
    return instant_;
  }
  static DeviceStream stream(const Json& op, std::size_t place) {
    return stream_of(op.at(place).get<std::uint32_t>());
  }
  std::optional<MemoryBlockId> block(const Json& op) const {
    const auto found = blocks_.find(op.at(1).get<int>());
    return found == blocks_.end() ? std::nullopt : std::optional(found->second);
  }

  bool play(const Json& op) {
    const auto name = op.at(0).get<std::string>();
    if (name == "alloc") {
      const auto got = allocator_.allocate({op.at(2).get<std::int64_t>()}, stream(op, 3));
      if (got) blocks_[op.at(1).get<int>()] = *got;
      return got.has_value();
    }
    if (name == "free") {
      if (const auto freed = block(op)) allocator_.free(*freed);
      blocks_.erase(op.at(1).get<int>());
    } else if (name == "record_stream") {
      if (const auto used = block(op)) allocator_.record_stream(*used, stream(op, 2));
    } else if (name == "empty_cache") {
      allocator_.empty_cache();
    } else {
      synchronize(name, op);
    }
    return true;
  }

  void synchronize(const std::string& name, const Json& op) {
    if (name == "synchronize")
      host_bound_.wait_all();
    else if (name == "stream_synchronize")
      host_bound_.wait(stream(op, 1));
    else if (name == "wait_stream")
      host_bound_.stream_waits(stream(op, 1), host_bound_.record(stream(op, 2)));
    else
      throw Error({"ops", "unknown operation \"" + name + "\"", {}});
  }

  bool lags_;
  InstantDevice instant_;
  HostBoundDevice host_bound_;
  CachingAllocator allocator_;
  std::map<int, MemoryBlockId> blocks_;
};

/// By address: the recorder's device places every segment below the ones before it.
Json segment_rows(std::vector<SegmentSnapshot> segments) {
  std::stable_sort(segments.begin(), segments.end(),
                   [](const auto& a, const auto& b) { return a.number > b.number; });
  Json rows = Json::array();
  for (const SegmentSnapshot& s : segments) {
    Json blocks = Json::array();
    for (const BlockSnapshot& b : s.blocks)
      blocks.push_back({b.size.count, b.requested.count, name_of(b.state)});
    rows.push_back({number_of(s.stream), s.size.count,
                    s.pool == PoolKind::small ? "small" : "large", std::move(blocks)});
  }
  return rows;
}

Json peaks_of(const AllocatorStatistics& s) {
  return {{"allocated_bytes", s.allocated_bytes.peak},
          {"active_bytes", s.active_bytes.peak},
          {"requested_bytes", s.requested_bytes.peak},
          {"reserved_bytes", s.reserved_bytes.peak}};
}

Json played(const Json& recorded) {
  Sequence sequence(recorded.at("settings"));
  Json after = Json::array();
  for (const Json& op : recorded.at("ops")) after.push_back(sequence.after(op));
  const CachingAllocator& allocator = sequence.allocator();
  const AllocatorStatistics& s = allocator.statistics();
  return {{"after_each_op", std::move(after)},
          {"trace", trace_rows(allocator.trace(), number_of)},
          {"segments_at_end", segment_rows(allocator.segments())},
          {"peak", peaks_of(s)},
          {"num_alloc_retries", s.retries},
          {"num_ooms", s.out_of_memories},
          {"num_device_alloc", s.device_allocations},
          {"num_device_free", s.device_frees}};
}

}  // namespace

std::vector<std::string> allocator_ops_fields() {
  return {"after_each_op",     "trace",    "segments_at_end",  "peak",
          "num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free"};
}

nlohmann::ordered_json trace_rows(const std::vector<AllocatorTraceEntry>& trace,
                                  const StreamNumber& number_of) {
  static const std::map<AllocatorAction, std::string> letters{
      {AllocatorAction::allocate, "a"},         {AllocatorAction::free_requested, "r"},
      {AllocatorAction::free_completed, "f"},   {AllocatorAction::segment_allocated, "S"},
      {AllocatorAction::segment_freed, "s"},    {AllocatorAction::segment_mapped, "M"},
      {AllocatorAction::segment_unmapped, "U"}, {AllocatorAction::out_of_memory, "oom"}};
  Json rows = Json::array();
  for (const AllocatorTraceEntry& e : trace)
    rows.push_back({letters.at(e.action), e.segment, e.offset, e.bytes, number_of(e.stream)});
  return rows;
}

Outcome check_allocator_ops(const Json& recorded, const Options& options) {
  const Json got = played(recorded);
  for (const auto& [field, value] : got.items()) {
    if (options.leaves_out(field)) continue;
    const std::string difference = json_difference(field, recorded.at(field), value);
    if (!difference.empty()) return {.difference = difference, .worst_share = {}, .worst = {}};
  }
  return {};
}

}  // namespace shardscope::recordings
