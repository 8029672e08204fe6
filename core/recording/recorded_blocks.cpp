#include "core/recording/recorded_blocks.h"

#include <algorithm>
#include <utility>

#include "core/schedule/private_pool.h"

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
  go_to_pool(pool_of(line));
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

/// Pools are numbered as they appear. More than any script has count as one.
std::uint16_t RecordedBlocks::pool_of(const LogLine& line) {
  constexpr std::size_t field = 3;
  if (!line.has(field)) return 0;
  constexpr std::size_t most_pools = 4096;
  const auto next = static_cast<std::uint16_t>(std::min(pools_.size() + 1, most_pools));
  return pools_.try_emplace(line.integer(field), next).first->second;
}

void RecordedBlocks::go_to_pool(std::uint16_t pool) {
  if (std::exchange(pool_, pool) == pool) return;
  writer_.add(HostActionKind::mark, 0, static_cast<std::uint32_t>(schedule_.program.marks.size()));
  schedule_.program.marks.push_back({.what = names_.name(private_pool_mark), .number = pool});
}

RecordedBlocks::Moment RecordedBlocks::moment_of(const LogLine& line) {
  const RecordedThread& thread = threads_.of(line.thread);
  return {.thread = line.thread, .last_begun = thread.last_begun, .running = thread.running.size()};
}

void RecordedBlocks::tell_device(const LogLine& line) {
  refused_.reset();
  if (line.kind == LogKind::malloc && line.text(2) == "0") refused_ = moment_of(line);
}

/// What torch gives back by itself, our model of its allocator gives back by itself, too.
void RecordedBlocks::give_back(const LogLine& line) {
  const std::uint16_t pool = pool_of(line);
  if (pool == 0 && (refused_ == moment_of(line) || collects_garbage_)) return;
  writer_.add(HostActionKind::empty_cache, 0, pool);
}

void RecordedBlocks::tell_settings(const LogLine& line) {
  collects_garbage_ = line.text(0).find("garbage_collection_threshold") != std::string_view::npos;
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
