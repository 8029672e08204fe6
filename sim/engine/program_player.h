// ProgramPlayer: goes through a schedule's host program with a device, and with a caching allocator
// where one is asked for.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/schedule/schedule.h"
#include "sim/allocator/caching_allocator.h"

namespace shardscope {

/// A request of the program that failed: PyTorch raises torch.OutOfMemoryError there.
struct FailedRequest {
  std::uint32_t action = 0;
  BufferId buffer;
  OutOfMemory failure;
};

/// Figures of memory at a moment: what a profiler's counters show.
struct MemoryMoment {
  CategoryBytes allocated;  ///< in blocks, as the allocator counts
  Bytes active;
  Bytes reserved;
  bool operator==(const MemoryMoment&) const = default;
};

class ProgramPlayer {
 public:
  struct Setting {
    const Schedule& schedule;     ///< may still grow
    CachingAllocator* allocator;  ///< null: requests for memory are passed over
    DeviceEvents& device;
  };
  /// All of it must outlive the player.
  explicit ProgramPlayer(const Setting& setting) : setting_(setting) {}

  /// Called where memory turns from rising to falling or back: between two calls it only does one
  /// of both.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    /// `operation` is the last one that was issued.
    virtual void on_turn(const MemoryMoment& figures, OperationId operation) = 0;
  };
  void watch(Watcher& watcher) { watcher_ = &watcher; }

  /// Goes on up to action `end`. Stops for good at a request that fails; whether it got there.
  bool play_until(std::uint32_t end);
  /// The next action is this one, of a step that repeats.
  void go_back_to(std::uint32_t action) { next_ = action; }
  /// After a request that failed: what the program lets go of from there on, as the error passes
  /// through it.
  void unwind();

  const std::optional<FailedRequest>& failed() const { return failed_; }
  MemoryMoment figures() const;
  std::uint32_t next_action() const { return next_; }

 private:
  /// Blocks of a buffer that has several: those freed so far are the first ones.
  struct Copies {
    std::vector<MemoryBlockId> blocks;
    std::size_t freed = 0;
  };
  /// What the program is doing again.
  struct Repetition {
    std::uint32_t begin = 0;  ///< its first action
    std::uint32_t left = 0;   ///< times, this one included; 0: nothing is repeated
  };
  /// Copies of buffers that were allocated at once, in turn: one of each buffer, `times` times.
  struct Alike {
    std::vector<std::uint32_t> buffers;
    std::uint32_t times = 0;
    std::vector<CachingAllocator::BlockRun> runs;
  };
  /// What a repetition does each time.
  struct Body {
    std::int64_t dispatches = 0;
    std::vector<HostAction> allocations;
    std::vector<std::uint32_t> freed;  ///< buffers
    bool only_one_way = true;          ///< it allocates or frees, or neither
  };

  void act(const HostAction& action);
  void pass(const HostMark& mark);
  void allocate(const HostAction& action);
  void free(const HostAction& action);
  void free_copies(std::uint32_t buffer);
  void do_again();
  Body body() const;
  bool allocate_rest(const std::vector<HostAction>& allocations);
  bool free_rest(const std::vector<std::uint32_t>& buffers);
  void take_apart(std::uint32_t buffer);
  void fail(const HostAction& action);
  void turn(bool rises);
  DeviceStream stream(std::uint8_t lane);

  Setting setting_;
  Watcher* watcher_ = nullptr;
  std::vector<DeviceStream> streams_;                 // by lane
  std::vector<std::optional<MemoryBlockId>> blocks_;  // by buffer
  std::unordered_map<std::uint32_t, Copies> copies_;  // by buffer
  std::vector<Alike> alike_;
  std::vector<std::int64_t> block_bytes_;  // by buffer: of a block
  std::vector<DeviceEvent> events_;
  CategoryBytes live_;
  OperationId launched_;
  std::uint16_t memory_pool_ = 0;  // that blocks come from
  std::uint32_t next_ = 0;
  Repetition repetition_;
  bool rising_ = false;
  std::optional<FailedRequest> failed_;
};

}  // namespace shardscope
