#include "core/recording/recorded_blocks.h"

#include <algorithm>

namespace shardscope {

namespace {

constexpr std::int64_t most_bytes = std::int64_t{1} << 44;

/// Whether the script's modules or optimizer told what it is for.
bool has_purpose(const Buffer& buffer) {
  return buffer.category == MemoryCategory::parameters ||
         buffer.category == MemoryCategory::gradients ||
         buffer.category == MemoryCategory::optimizer_states;
}

}  // namespace

Bytes bytes_in(const LogLine& line, std::size_t field) {
  return {std::max<std::int64_t>(0, line.integer(field, most_bytes))};
}

void RecordedBlocks::allocate(const LogLine& line) {
  const RecordedThread& thread = threads_.of(line.thread);
  const BufferId id = BufferId::of(schedule_.buffers.size());
  const auto lane = streams_.lane_of(line.integer(2));
  const Phase phase = threads_.phase_of(thread);
  Buffer buffer{
      .name = threads_.name_of(thread),
      .category = phase == Phase::init ? MemoryCategory::inputs : MemoryCategory::temporaries,
      .lane = lane,
      .bytes = bytes_in(line, 1),
      .owner = RecordedThreads::owner_of(thread)};
  if (!schedule_.steps.empty()) buffer.allocated_by = OperationId{writer_.next_operation()};
  schedule_.buffers.push_back(buffer);
  born_.push_back({phase, thread.serial()});
  live_[line.integer(0)] = id;
  writer_.add(HostActionKind::allocate, lane, id.value);
}

void RecordedBlocks::free(const LogLine& line) {
  const auto known = live_.find(line.integer(0));
  if (known == live_.end()) return;
  Buffer& buffer = schedule_.buffers[known->second.value];
  if (const std::uint32_t next = writer_.next_operation(); next > 0 && !schedule_.steps.empty())
    buffer.freed_by = OperationId{next - 1};
  const RecordedThread& thread = threads_.of(line.thread);
  const Birth& birth = born_[known->second.value];
  if (buffer.category == MemoryCategory::temporaries) {
    // What a forward makes and a backward lets go was kept for it; what a call takes and gives
    // back is its scratch.
    if (birth.phase == Phase::forward && threads_.phase_of(thread) != Phase::forward)
      buffer.category = MemoryCategory::activations;
    else if (birth.serial != 0 && birth.serial == thread.serial())
      buffer.category = MemoryCategory::workspace;
  }
  writer_.add(HostActionKind::free, buffer.lane, known->second.value);
  live_.erase(known);
}

void RecordedBlocks::use(const LogLine& line) {
  const auto known = live_.find(line.integer(0));
  if (known == live_.end()) return;
  const auto lane = streams_.lane_of(line.integer(1));
  if (lane != schedule_.buffers[known->second.value].lane)
    writer_.add(HostActionKind::record_stream, lane, known->second.value);
}

void RecordedBlocks::tell_purpose(const LogLine& line) {
  const auto known = live_.find(line.integer(1));
  if (known == live_.end()) return;
  Buffer& buffer = schedule_.buffers[known->second.value];
  if (line.text(0) == "parameters") buffer.category = MemoryCategory::parameters;
  if (line.text(0) == "gradients") buffer.category = MemoryCategory::gradients;
  if (line.text(0) == "optimizer_states") buffer.category = MemoryCategory::optimizer_states;
}

void RecordedBlocks::finish() {
  for (Buffer& buffer : schedule_.buffers) {
    const bool computes = schedule_.program.lanes[buffer.lane].stream == Stream::compute;
    if (!computes && !has_purpose(buffer)) buffer.category = MemoryCategory::communication;
    const bool stays = !buffer.freed_by && buffer.category == MemoryCategory::temporaries;
    if (stays && schedule_.names[buffer.name].find("mm.") != std::string::npos)
      buffer.category = MemoryCategory::workspace;
  }
}

}  // namespace shardscope
