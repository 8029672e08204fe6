// A training under PyTorch, played with the caching allocator while it is recorded: memory at any
// moment that the caller asks for.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "core/pytorch/runtimes/record/schedule_recorder.h"
#include "core/pytorch/runtimes/training/training_run.h"
#include "sim/allocator/caching_allocator.h"
#include "sim/engine/program_player.h"

namespace shardscope::planner {

/// The device is infinitely fast: blocks that another stream used can be used again at once.
class MemoryPlay final : private eager::ProgramListener {
 public:
  struct Setting {
    eager::SessionSettings session;
    eager::KernelDevice device;
    AllocatorSettings allocator;
    Bytes memory;        ///< of the device; 0: without end
    Bytes outside = {};  ///< of it, taken by others: context, NCCL
  };
  explicit MemoryPlay(const Setting& setting);

  eager::Session& session() { return session_; }
  CachingAllocator& allocator() { return allocator_; }
  /// What a request that failed ends the work with; the caller may ask `failed`.
  struct OutOfMemoryStop {};
  bool failed() const { return player_.failed().has_value(); }
  /// Everything that was done so far reaches the allocator. Throws OutOfMemoryStop.
  void catch_up();
  /// The highest figures count from here on.
  void begin();
  /// The same, but what is freed first belongs to what came before.
  void begin_after_frees();

 private:
  void on_program(const Schedule& so_far) override;
  void play_until(std::uint32_t end);

  InstantDevice instant_;
  eager::Session session_;
  CachingAllocator allocator_;
  eager::ScheduleRecorder recorder_;
  ProgramPlayer player_;
  bool frees_first_ = false;
};

}  // namespace shardscope::planner
