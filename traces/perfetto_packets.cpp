#include "traces/perfetto_packets.h"

#include <algorithm>
#include <utility>

#include "core/base/utf8.h"

namespace shardscope {
namespace {

// Numbers of fields; the message that has them is in their names.
constexpr std::uint32_t trace_packet = 1;
constexpr std::uint32_t packet_timestamp = 8, packet_sequence = 10, packet_event = 11,
                        packet_interned = 12, packet_flags = 13, packet_track = 60;
constexpr std::uint32_t track_uuid = 1, track_name = 2, track_process = 3, track_parent = 5,
                        track_counter = 8;
constexpr std::uint32_t process_pid = 1, process_name = 6, counter_unit = 3;
constexpr std::uint32_t event_category = 3, event_argument = 4, event_type = 9, event_name = 10,
                        event_track = 11, event_value = 30, event_flow = 47, event_flow_end = 48;
constexpr std::uint32_t interned_categories = 1, interned_names = 2, interned_arguments = 3;
constexpr std::uint32_t interned_number = 1, interned_text = 2;
constexpr std::uint32_t argument_name = 1, argument_integer = 4, argument_text = 6;

constexpr std::uint64_t begins = 1, ends = 2, counts = 4;    // TrackEvent.Type
constexpr std::uint64_t unit_bytes = 3;                      // CounterDescriptor.Unit
constexpr std::uint64_t state_cleared = 1, needs_state = 2;  // TracePacket.SequenceFlags
constexpr std::uint64_t sequence = 1;

/// protobuf's strings are UTF-8, and readers refuse others.
std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    if (point.bytes == 0) append_utf8(valid, 0xFFFD);
    valid += text.substr(0, point.bytes);
    text.remove_prefix(std::max<std::size_t>(point.bytes, 1));
  }
  return valid;
}

}  // namespace

/// A track of its own for slices that nest, and the ends of those that are open.
struct PerfettoPackets::Lane {
  std::uint64_t track = 0;
  std::vector<std::uint64_t> open;
};

PerfettoPackets::PerfettoPackets(Sink sink) : sink_(std::move(sink)) {
  ProtobufMessage first;
  first.varint(packet_flags, state_cleared);
  packet(std::move(first));
}

void PerfettoPackets::packet(ProtobufMessage body) {
  body.varint(packet_sequence, sequence);
  sink_(ProtobufMessage().message(trace_packet, body).bytes());
}

std::uint64_t PerfettoPackets::process(std::int32_t pid, std::string_view name) {
  ProtobufMessage process, track;
  process.varint(process_pid, static_cast<std::uint64_t>(pid)).text(process_name, valid_utf8(name));
  track.varint(track_uuid, ++tracks_).message(track_process, process);
  packet(std::move(ProtobufMessage().message(packet_track, track)));
  return tracks_;
}

std::uint64_t PerfettoPackets::track(std::uint64_t parent, std::string_view name) {
  ProtobufMessage track;
  track.varint(track_uuid, ++tracks_)
      .text(track_name, valid_utf8(name))
      .varint(track_parent, parent);
  packet(std::move(ProtobufMessage().message(packet_track, track)));
  return tracks_;
}

std::uint64_t PerfettoPackets::counter(std::uint64_t parent, std::string_view name) {
  return counter_track(parent, name, {});
}

std::uint64_t PerfettoPackets::bytes_counter(std::uint64_t parent, std::string_view name) {
  ProtobufMessage counter;
  counter.varint(counter_unit, unit_bytes);
  return counter_track(parent, name, counter);
}

std::uint64_t PerfettoPackets::counter_track(std::uint64_t parent, std::string_view name,
                                             const ProtobufMessage& counter) {
  ProtobufMessage track;
  track.varint(track_uuid, ++tracks_)
      .text(track_name, valid_utf8(name))
      .varint(track_parent, parent)
      .message(track_counter, counter);
  packet(std::move(ProtobufMessage().message(packet_track, track)));
  return tracks_;
}

void PerfettoPackets::slices(std::uint64_t parent, std::string_view name,
                             const std::vector<PerfettoSlice>& slices) {
  std::vector<Lane> lanes;
  const auto close_until = [&](Lane& lane, std::uint64_t time) {
    for (; !lane.open.empty() && lane.open.back() <= time; lane.open.pop_back())
      end(lane.track, lane.open.back());
  };
  for (const PerfettoSlice& slice : slices) {
    auto lane = lanes.begin();
    for (; lane != lanes.end(); ++lane) {
      close_until(*lane, slice.begin);
      if (lane->open.empty() || lane->open.back() >= slice.end) break;
    }
    if (lane == lanes.end()) lane = lanes.insert(lane, {.track = track(parent, name), .open = {}});
    begin(lane->track, slice);
    lane->open.push_back(slice.end);
  }
  for (Lane& lane : lanes) close_until(lane, UINT64_MAX);
}

std::uint64_t PerfettoPackets::interned(std::unordered_map<std::string, std::uint64_t>& known,
                                        std::uint32_t field, std::string_view text,
                                        ProtobufMessage& data) {
  const auto [at, is_new] = known.try_emplace(valid_utf8(text), known.size() + 1);
  if (is_new) {
    ProtobufMessage entry;
    entry.varint(interned_number, at->second).text(interned_text, at->first);
    data.message(field, entry);
  }
  return at->second;
}

void PerfettoPackets::event(std::uint64_t time, const ProtobufMessage& event,
                            const ProtobufMessage& interned) {
  ProtobufMessage body;
  body.varint(packet_timestamp, time).varint(packet_flags, needs_state);
  if (!interned.bytes().empty()) body.message(packet_interned, interned);
  body.message(packet_event, event);
  packet(std::move(body));
}

void PerfettoPackets::begin(std::uint64_t track, const PerfettoSlice& slice) {
  ProtobufMessage message, data;
  message.varint(event_type, begins)
      .varint(event_track, track)
      .varint(event_name, interned(names_, interned_names, slice.name, data))
      .varint(event_category, interned(categories_, interned_categories, slice.category, data));
  if (slice.starts_flow != 0) message.fixed64(event_flow, slice.starts_flow);
  if (slice.ends_flow != 0) message.fixed64(event_flow_end, slice.ends_flow);
  for (const PerfettoArgument& argument : slice.arguments) {
    ProtobufMessage value;
    value.varint(argument_name, interned(arguments_, interned_arguments, argument.name, data));
    if (const auto* integer = std::get_if<std::int64_t>(&argument.value))
      value.varint(argument_integer, static_cast<std::uint64_t>(*integer));
    if (const auto* text = std::get_if<std::string>(&argument.value))
      value.text(argument_text, valid_utf8(*text));
    message.message(event_argument, value);
  }
  event(slice.begin, message, data);
}

void PerfettoPackets::end(std::uint64_t track, std::uint64_t time) {
  ProtobufMessage message;
  message.varint(event_type, ends).varint(event_track, track);
  event(time, message, {});
}

void PerfettoPackets::count(std::uint64_t counter, std::uint64_t time, std::int64_t value) {
  ProtobufMessage message;
  message.varint(event_type, counts)
      .varint(event_track, counter)
      .varint(event_value, static_cast<std::uint64_t>(value));
  event(time, message, {});
}

}  // namespace shardscope
