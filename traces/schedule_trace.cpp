#include "traces/schedule_trace.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/schedule/host_layout.h"

namespace shardscope {
namespace {

/// Names that are added to a trace, each once.
class NameIndex {
 public:
  explicit NameIndex(std::vector<std::string>& names) : names_(names) {
    for (std::size_t i = 0; i < names.size(); ++i)
      index_.try_emplace(names[i], static_cast<std::uint32_t>(i));
  }
  std::uint32_t of(const std::string& name) {
    const auto [found, fresh] = index_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (fresh) names_.push_back(name);
    return found->second;
  }
  std::vector<std::uint32_t> of_all(const std::vector<std::string>& all) {
    std::vector<std::uint32_t> result;
    for (const std::string& name : all) result.push_back(of(name));
    return result;
  }

 private:
  std::vector<std::string>& names_;
  std::unordered_map<std::string, std::uint32_t> index_;
};

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
                       .ranks = {},
                       .way = copy_way(schedule, op)};
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

/// Of a schedule of PyTorch's operators; others have no shapes and gain nothing by modules.
void add_modules_and_shapes(Trace& trace, const Schedule& schedule) {
  if (schedule.shapes.empty()) return;
  NameIndex names(trace.names);
  const std::vector<std::uint32_t> modules = names.of_all(schedule.owners);
  const std::vector<std::uint32_t> shapes = names.of_all(schedule.shapes);
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    const Operation& op = schedule.operations[i];
    if (op.owner) trace.facts[i].module = modules[op.owner.value];
    if (op.shapes != Operation::no_shapes) trace.facts[i].shapes = shapes[op.shapes];
  }
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
  trace.facts.reserve(schedule.operations.size());
  for (std::size_t i = 0; i < schedule.operations.size(); ++i) {
    trace.facts.push_back(facts_of(schedule, OperationId::of(i)));
  }
  add_modules_and_shapes(trace, schedule);
  return trace;
}

std::uint16_t track_of(const Trace& trace, Stream stream) {
  const auto found = std::ranges::find(trace.tracks, stream, &Track::stream);
  return static_cast<std::uint16_t>(found - trace.tracks.begin());
}

CategoryBytes resting_bytes(const Schedule& schedule) {
  CategoryBytes resting;
  for (const Buffer& buffer : schedule.buffers) {
    if (!buffer.allocated_by && !buffer.on_host) resting[buffer.category] += buffer.bytes;
  }
  return resting;
}

}  // namespace shardscope
