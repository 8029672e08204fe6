#include "core/schedule/schedule_builder.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace shardscope {
namespace {

template <class T>
std::uint32_t find_or_add(std::vector<T>& table, const T& value) {
  // From the back: neighbours repeat. Tables of distinct kernels stay short, whatever the number of
  // layers.
  for (std::size_t i = table.size(); i-- > 0;)
    if (table[i] == value) return static_cast<std::uint32_t>(i);
  table.push_back(value);
  return static_cast<std::uint32_t>(table.size() - 1);
}

std::size_t index_of(Stream stream) { return static_cast<std::size_t>(stream); }

}  // namespace

BufferId ScheduleBuilder::add_buffer(const std::string& name, MemoryCategory category, Bytes bytes,
                                     UnitId unit, Life life) {
  Buffer buffer{.name = intern(name), .category = category, .bytes = bytes, .unit = unit};
  // A buffer that an operation allocates is marked until the lifetimes are derived.
  if (life == Life::from_use) buffer.allocated_by = OperationId{OperationId::none_value - 1};
  schedule_.buffers.push_back(buffer);
  return BufferId::of(schedule_.buffers.size() - 1);
}

BufferId ScheduleBuilder::add_host_buffer(const std::string& name, MemoryCategory category,
                                          Bytes bytes, UnitId unit) {
  const BufferId id = add_buffer(name, category, bytes, unit, Life::persistent);
  schedule_.buffers[id.value].on_host = true;
  return id;
}

GroupId ScheduleBuilder::add_group(const Group& group) {
  return {find_or_add(schedule_.groups, group)};
}

Operand ScheduleBuilder::part(BufferId buffer, const Elements& elements, Access access) {
  return {buffer, bytes_of(elements.first, elements.dtype),
          bytes_of(elements.count, elements.dtype), access};
}

std::uint32_t ScheduleBuilder::intern(const std::string& name) {
  const auto [entry, added] =
      name_index_.emplace(name, static_cast<std::uint32_t>(schedule_.names.size()));
  if (added) schedule_.names.push_back(name);
  return entry->second;
}

std::uint32_t ScheduleBuilder::intern(const Kernel& kernel) {
  return find_or_add(schedule_.kernels, kernel);
}

std::uint32_t ScheduleBuilder::intern(const Collective& collective) {
  return find_or_add(schedule_.collectives, collective);
}

Operation& ScheduleBuilder::start(const Label& label) {
  Operation op;
  op.name = intern(label.name);
  op.kind = label.kind;
  op.stream = label.stream;
  op.phase = label.phase;
  op.micro_batch = static_cast<std::int16_t>(label.micro_batch);
  op.unit = label.unit;
  op.recomputed = label.recomputed;
  const auto slices = static_cast<std::uint32_t>(schedule_.slices.size());
  op.slices = {slices, slices};
  schedule_.operations.push_back(op);
  asked_waits_.emplace_back();
  return schedule_.operations.back();
}

OperationId ScheduleBuilder::commit(const std::vector<Operand>& operands) {
  Operation& op = schedule_.operations.back();
  op.operands.begin = static_cast<std::uint32_t>(schedule_.operands.size());
  schedule_.operands.insert(schedule_.operands.end(), operands.begin(), operands.end());
  op.operands.end = static_cast<std::uint32_t>(schedule_.operands.size());
  return OperationId::of(schedule_.operations.size() - 1);
}

OperationId ScheduleBuilder::add_kernel(const Label& label, const Kernel& kernel,
                                        const std::vector<Operand>& operands,
                                        const std::vector<Slice>& slices) {
  Operation& op = start(label);
  op.detail = intern(kernel);
  op.bytes = bytes_of(kernel);
  op.flops = flops_of(kernel);
  schedule_.slices.insert(schedule_.slices.end(), slices.begin(), slices.end());
  op.slices.end = static_cast<std::uint32_t>(schedule_.slices.size());
  return commit(operands);
}

OperationId ScheduleBuilder::add_collective(const Label& label, const Collective& collective,
                                            const std::vector<Operand>& operands) {
  Operation& op = start(label);
  op.detail = intern(collective);
  op.bytes = bytes_of(std::max(collective.elements_in, collective.elements_out), collective.dtype);
  return commit(operands);
}

OperationId ScheduleBuilder::add_copy(Label label, const Operand& from, const Operand& to) {
  label.kind = OperationKind::copy;
  label.stream = Stream::copy;
  start(label).bytes = from.bytes;
  return commit({from, to});
}

OperationId ScheduleBuilder::add_wait(const Label& label,
                                      const std::vector<OperationId>& operations) {
  start(label);
  asked_waits_.back() = operations;
  return commit({});
}

void ScheduleBuilder::derive_dependencies() {
  struct Users {
    std::uint32_t writer = 0;                          // index + 1; 0: none
    std::array<std::uint32_t, stream_count> reader{};  // by stream, index + 1
    bool used = false;
  };
  auto& operations = schedule_.operations;
  std::vector<Users> users(schedule_.buffers.size());
  std::array<std::uint32_t, stream_count> last_on{};
  clocks_.assign(operations.size(), Clock{});
  std::vector<std::uint32_t> wanted;
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    Operation& op = operations[i];
    const std::size_t stream = index_of(op.stream);
    wanted.clear();
    for (OperationId id : asked_waits_[i]) wanted.push_back(id.value + 1);
    for (const Operand& operand : schedule_.operands_of(op)) {
      if (!operand.buffer) continue;
      Users& of = users[operand.buffer.value];
      wanted.push_back(of.writer);
      if (operand.access != Access::read)
        wanted.insert(wanted.end(), of.reader.begin(), of.reader.end());
      const bool allocates = !of.used && schedule_.at(operand.buffer).allocated_by;
      if (allocates && op.stream != Stream::compute)
        wanted.push_back(last_on[index_of(Stream::compute)]);
      of.used = true;
    }
    Clock& clock = clocks_[i];
    if (last_on[stream] > 0) {
      clock = clocks_[last_on[stream] - 1];
      clock[stream] = last_on[stream];
    }
    // The latest first: it may imply the others.
    std::sort(wanted.begin(), wanted.end(), std::greater<>());
    op.after.begin = static_cast<std::uint32_t>(schedule_.after.size());
    for (std::uint32_t one_past : wanted) {
      if (one_past == 0) break;
      const std::size_t other = index_of(operations[one_past - 1].stream);
      if (clock[other] >= one_past) continue;
      schedule_.after.push_back(OperationId::of(one_past - 1));
      for (std::size_t s = 0; s < clock.size(); ++s)
        clock[s] = std::max(clock[s], clocks_[one_past - 1][s]);
      clock[other] = one_past;
    }
    op.after.end = static_cast<std::uint32_t>(schedule_.after.size());
    for (const Operand& operand : schedule_.operands_of(op)) {
      if (!operand.buffer) continue;
      Users& of = users[operand.buffer.value];
      if (operand.access == Access::read) {
        of.reader[stream] = i + 1;
      } else {
        of.writer = i + 1;
        of.reader.fill(0);
      }
    }
    last_on[stream] = i + 1;
  }
}

void ScheduleBuilder::derive_lifetimes() {
  const auto& operations = schedule_.operations;
  std::vector<std::uint32_t> compute;  // operations of the compute stream
  for (std::uint32_t i = 0; i < operations.size(); ++i)
    if (operations[i].stream == Stream::compute) compute.push_back(i);
  std::vector<std::array<std::uint32_t, stream_count>> last_use(schedule_.buffers.size());
  std::vector<bool> used(schedule_.buffers.size(), false);
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    for (const Operand& operand : schedule_.operands_of(operations[i])) {
      if (!operand.buffer) continue;
      Buffer& buffer = schedule_.buffers[operand.buffer.value];
      if (buffer.allocated_by && !used[operand.buffer.value])
        buffer.allocated_by = OperationId::of(i);
      used[operand.buffer.value] = true;
      last_use[operand.buffer.value][index_of(operations[i].stream)] = i + 1;
    }
  }
  for (std::size_t b = 0; b < schedule_.buffers.size(); ++b) {
    Buffer& buffer = schedule_.buffers[b];
    if (!buffer.allocated_by) continue;
    auto freed = compute.begin();
    for (std::size_t s = 0; s < stream_count; ++s) {
      const std::uint32_t use = last_use[b][s];
      if (use == 0) continue;
      const auto knows = [&](std::uint32_t op) {
        return s == index_of(Stream::compute) ? op + 1 >= use : clocks_[op][s] >= use;
      };
      freed = std::max(freed, std::partition_point(compute.begin(), compute.end(),
                                                   [&](auto op) { return !knows(op); }));
    }
    buffer.freed_by = OperationId{*freed};
  }
}

Schedule ScheduleBuilder::finish() {
  std::array<OperationId, stream_count> last;
  for (std::size_t i = 0; i < schedule_.operations.size(); ++i)
    last[index_of(schedule_.operations[i].stream)] = OperationId::of(i);
  std::vector<OperationId> all;
  for (OperationId id : last)
    if (id) all.push_back(id);
  add_wait({.name = "end of step", .kind = OperationKind::host, .phase = Phase::other}, all);
  derive_dependencies();
  derive_lifetimes();
  return std::move(schedule_);
}

}  // namespace shardscope
