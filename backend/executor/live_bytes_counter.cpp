#include "backend/executor/live_bytes_counter.h"

#include <algorithm>
#include <utility>

namespace shardscope {
namespace {

std::size_t index_of(Stream stream) { return static_cast<std::size_t>(stream); }

}  // namespace

LiveBytesCounter::LiveBytesCounter(const Schedule& schedule, std::vector<OperationId> operations)
    : schedule_(schedule),
      operations_(std::move(operations)),
      known_at_start_(schedule.operations.size()),
      place_(schedule.operations.size(), 0),
      uses_(schedule.buffers.size(), 0),
      is_live_(schedule.buffers.size(), false) {
  for (const Buffer& buffer : schedule.buffers) {
    if (!buffer.allocated_by && !buffer.on_host) persistent_[buffer.category] += buffer.bytes;
  }
  count_uses();
  derive_knowledge();
  changed_.reserve(schedule.buffers.size());
  restart();
}

void LiveBytesCounter::count_uses() {
  for (const OperationId id : operations_) {
    for (const Operand& operand : schedule_.operands_of(schedule_.at(id))) {
      if (operand.buffer) ++uses_[operand.buffer.value];
    }
  }
}

void LiveBytesCounter::derive_knowledge() {
  Known issued{};
  std::array<OperationId, stream_count> last{};
  for (const OperationId id : operations_) {
    const Operation& operation = schedule_.at(id);
    const std::size_t stream = index_of(operation.stream);
    Known& known = known_at_start_[id.value];
    if (last[stream]) known = known_at_start_[last[stream].value];
    known[stream] = issued[stream];
    for (const OperationId waited : schedule_.after_of(operation)) {
      const Known& theirs = known_at_start_[waited.value];
      for (std::size_t s = 0; s < stream_count; ++s) known[s] = std::max(known[s], theirs[s]);
      std::uint32_t& of_stream = known[index_of(schedule_.at(waited).stream)];
      of_stream = std::max(of_stream, place_[waited.value] + 1);
    }
    place_[id.value] = issued[stream]++;
    by_stream_[stream].push_back(id);
    last[stream] = id;
  }
}

void LiveBytesCounter::restart() {
  released_ = {};
  uses_left_ = uses_;
  live_ = persistent_;
  std::fill(is_live_.begin(), is_live_.end(), false);
}

std::span<const BufferId> LiveBytesCounter::issued(OperationId operation) {
  changed_.clear();
  for (const Operand& operand : schedule_.operands_of(schedule_.at(operation))) {
    const BufferId id = operand.buffer;
    if (!id || is_live_[id.value] || !schedule_.at(id).allocated_by) continue;
    is_live_[id.value] = true;
    live_[schedule_.at(id).category] += schedule_.at(id).bytes;
    changed_.push_back(id);
  }
  return changed_;
}

std::span<const BufferId> LiveBytesCounter::ended(OperationId operation) {
  changed_.clear();
  Known known = known_at_start_[operation.value];
  const std::size_t own = index_of(schedule_.at(operation).stream);
  known[own] = place_[operation.value] + 1;
  for (std::size_t s = 0; s < stream_count; ++s) {
    while (released_[s] < known[s]) release_uses_of(by_stream_[s][released_[s]++]);
  }
  return changed_;
}

void LiveBytesCounter::release_uses_of(OperationId operation) {
  for (const Operand& operand : schedule_.operands_of(schedule_.at(operation))) {
    const BufferId id = operand.buffer;
    if (!id || !schedule_.at(id).allocated_by) continue;
    if (--uses_left_[id.value] > 0) continue;
    is_live_[id.value] = false;
    live_[schedule_.at(id).category] -= schedule_.at(id).bytes;
    changed_.push_back(id);
  }
}

}  // namespace shardscope
