// A set of streams in the order in which c10 goes through its own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/allocator/device_events.h"

namespace shardscope {

/// A few streams. The allocator frees blocks in the order of its hash table (ska::flat_hash_map:
/// Robin Hood probing, Fibonacci hashing, at most half full), which shows in traces; so the order
/// here is that table's. Source: c10/util/flat_hash_map.h of torch 2.15.
class StreamTable {
 public:
  /// Adds a stream that may be there already.
  void insert(DeviceStream stream);
  void erase(DeviceStream stream);
  bool empty() const { return count_ == 0; }
  /// Index of the first entry from `place` on; none at the end.
  std::optional<std::size_t> next(std::size_t place) const;
  DeviceStream operator[](std::size_t place) const { return slots_[place].stream; }

 private:
  struct Slot {
    std::int32_t distance = empty_slot;  // from where the stream's hash would have it
    DeviceStream stream;
  };
  static constexpr std::int32_t empty_slot = -1;

  bool place(Slot slot, std::size_t at);
  void grow();
  std::size_t desired(DeviceStream stream) const;

  std::vector<Slot> slots_;  // 2^power_, and some more for what was pushed on
  int power_ = 0;
  std::size_t count_ = 0;
};

}  // namespace shardscope
