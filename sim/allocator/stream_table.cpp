#include "sim/allocator/stream_table.h"

#include <algorithm>
#include <utility>

namespace shardscope {
namespace {

constexpr int first_power = 2;
constexpr std::size_t min_lookups = 4;

/// c10::Stream::hash of a stream of device 0. Streams come from pools of 32 for each of 4
/// priorities, created index by index, and their ids tell both. Source: c10/cuda/CUDAStream.cpp.
std::uint64_t hash_of(DeviceStream stream) {
  constexpr std::uint64_t cuda = std::uint64_t{1} << 56;
  constexpr std::uint32_t priorities = 4;
  if (stream == default_stream) return cuda;
  const std::uint32_t index = (stream.value - 1) / priorities;
  const std::uint32_t priority = (stream.value - 1) % priorities;
  return cuda | index << 5 | (priority + 1) << 1 | 1;
}

}  // namespace

std::size_t StreamTable::desired(DeviceStream stream) const {
  constexpr std::uint64_t golden = 11400714819323198485u;
  return static_cast<std::size_t>((golden * hash_of(stream)) >> (64 - power_));
}

void StreamTable::insert(DeviceStream stream) {
  if (slots_.empty()) grow();
  for (;;) {
    std::size_t at = desired(stream);
    std::int32_t distance = 0;
    for (; slots_[at].distance >= distance; ++at, ++distance)
      if (slots_[at].stream == stream) return;
    const bool full = 2 * (count_ + 1) > std::size_t{1} << power_;
    if (!full && place({distance, stream}, at)) return;
    grow();
  }
}

/// Puts the entry at `at` and pushes on whatever is nearer to its own place; false: the table has
/// to grow first.
bool StreamTable::place(Slot slot, std::size_t at) {
  const auto most = std::max(min_lookups, static_cast<std::size_t>(power_));
  std::vector<Slot> tried = slots_;
  for (; slot.distance < static_cast<std::int32_t>(most); ++at, ++slot.distance) {
    if (tried[at].distance == empty_slot) {
      tried[at] = slot;
      slots_ = std::move(tried);
      ++count_;
      return true;
    }
    if (tried[at].distance < slot.distance) std::swap(tried[at], slot);
  }
  return false;
}

void StreamTable::grow() {
  const std::vector<Slot> before = std::exchange(slots_, {});
  power_ = std::max(first_power, power_ + 1);
  const auto lookups = std::max(min_lookups, static_cast<std::size_t>(power_));
  slots_.resize((std::size_t{1} << power_) + lookups);
  count_ = 0;
  for (const Slot& slot : before)
    if (slot.distance != empty_slot) insert(slot.stream);
}

void StreamTable::erase(DeviceStream stream) {
  std::size_t at = 0;
  while (slots_[at].distance == empty_slot || slots_[at].stream != stream) ++at;
  --count_;
  for (; at + 1 < slots_.size() && slots_[at + 1].distance > 0; ++at) {
    slots_[at] = slots_[at + 1];
    --slots_[at].distance;
  }
  slots_[at] = {};
}

std::optional<std::size_t> StreamTable::next(std::size_t place) const {
  for (; place < slots_.size(); ++place)
    if (slots_[place].distance != empty_slot) return place;
  return std::nullopt;
}

}  // namespace shardscope
