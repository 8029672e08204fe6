// The packets of Perfetto's protobuf traces: tracks, slices, counters and flows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "traces/protobuf_message.h"

namespace shardscope {

/// What a slice says beside its name.
struct PerfettoArgument {
  std::string_view name;
  std::variant<std::int64_t, std::string> value;
};

/// A slice of a track: from `begin` to `end`, in nanoseconds from 0 on.
struct PerfettoSlice {
  std::uint64_t begin = 0, end = 0;
  std::string_view name, category;
  std::uint64_t starts_flow = 0;  ///< number of a flow that begins here; 0: none
  std::uint64_t ends_flow = 0;
  std::vector<PerfettoArgument> arguments;
};

/// Writes packets to a sink as they come. Names and categories are written once. Source: Perfetto
/// v58, protos/perfetto/trace (trace_packet.proto, track_event/*.proto).
class PerfettoPackets {
 public:
  using Sink = std::function<void(std::string_view)>;

  explicit PerfettoPackets(Sink sink);

  /// A process, and tracks in it; they are known by what these return.
  std::uint64_t process(std::int32_t pid, std::string_view name);
  std::uint64_t track(std::uint64_t parent, std::string_view name);
  std::uint64_t counter(std::uint64_t parent, std::string_view name);
  std::uint64_t bytes_counter(std::uint64_t parent, std::string_view name);

  /// Slices of one track, by begin and falling end. Those that overlap another without lying in it
  /// go to further tracks of the same parent and name, so that none is lost.
  void slices(std::uint64_t parent, std::string_view name,
              const std::vector<PerfettoSlice>& slices);
  void count(std::uint64_t counter, std::uint64_t time, std::int64_t value);

 private:
  struct Lane;

  std::uint64_t counter_track(std::uint64_t parent, std::string_view name,
                              const ProtobufMessage& counter);

  void packet(ProtobufMessage body);
  void event(std::uint64_t time, const ProtobufMessage& event, const ProtobufMessage& interned);
  void begin(std::uint64_t track, const PerfettoSlice& slice);
  void end(std::uint64_t track, std::uint64_t time);
  std::uint64_t interned(std::unordered_map<std::string, std::uint64_t>& known, std::uint32_t field,
                         std::string_view text, ProtobufMessage& data);

  Sink sink_;
  std::uint64_t tracks_ = 0;
  std::unordered_map<std::string, std::uint64_t> names_, categories_, arguments_;
};

}  // namespace shardscope
