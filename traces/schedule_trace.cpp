#include "traces/schedule_trace.h"

#include <algorithm>
#include <array>
#include <string>

namespace shardscope {
namespace {

OperationFacts facts_of(const Schedule& schedule, OperationId id) {
  const Operation& op = schedule.at(id);
  OperationFacts facts{.operation = id,
                       .name = std::string(schedule.name(op)),
                       .kind = op.kind,
                       .phase = op.phase,
                       .micro_batch = op.micro_batch,
                       .unit = op.unit ? schedule.units[op.unit.value].name : std::string(),
                       .bytes = op.bytes,
                       .flops = op.flops,
                       .group = {},
                       .ranks = {}};
  if (!is_collective(op.kind)) return facts;
  const Collective& collective = schedule.collectives[op.detail];
  const Group& group = schedule.groups[collective.group.value];
  facts.group = group.name;
  facts.ranks = group.ranks;
  facts.elements_in = collective.elements_in;
  facts.elements_out = collective.elements_out;
  facts.dtype = collective.dtype;
  return facts;
}

}  // namespace

SpanClass span_class_of(OperationKind kind) {
  if (is_collective(kind)) return SpanClass::communication;
  if (kind == OperationKind::copy) return SpanClass::copy;
  return kind == OperationKind::host ? SpanClass::host : SpanClass::compute;
}

Trace start_trace(const Schedule& schedule, TraceKind kind) {
  Trace trace;
  trace.kind = kind;
  trace.rank = schedule.rank;
  trace.world = schedule.world;
  trace.names = schedule.names;
  std::array<bool, stream_count> used{};
  for (const Operation& op : schedule.operations) used[static_cast<std::size_t>(op.stream)] = true;
  for (std::size_t i = 0; i < used.size(); ++i) {
    const auto stream = static_cast<Stream>(i);
    if (used[i]) trace.tracks.push_back({.name = std::string(name_of(stream)), .stream = stream});
  }
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    trace.facts.push_back(facts_of(schedule, OperationId::of(i)));
  }
  return trace;
}

std::uint16_t track_of(const Trace& trace, Stream stream) {
  const auto found = std::ranges::find(trace.tracks, stream, &Track::stream);
  return static_cast<std::uint16_t>(found - trace.tracks.begin());
}

CategoryBytes resting_bytes(const Schedule& schedule) {
  CategoryBytes resting;
  for (const Buffer& buffer : schedule.buffers) {
    if (!buffer.allocated_by) resting[buffer.category] += buffer.bytes;
  }
  return resting;
}

}  // namespace shardscope
