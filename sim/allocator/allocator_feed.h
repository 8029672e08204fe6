// Plays the caching allocator under the symbolic eager engine: every storage, every kernel's
// scratch, in the order in which PyTorch's host asks for them.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "core/lower/pytorch/kernel_scratch.h"
#include "core/lower/pytorch/observer.h"
#include "sim/allocator/caching_allocator.h"

namespace shardscope {

/// The step ended here: torch.OutOfMemoryError.
class OutOfMemoryStop : public Error {
 public:
  OutOfMemoryStop(const OutOfMemory& failure, const AllocatorStatistics& statistics);
  /// Once the operator that failed has let go of what it had made.
  const AllocatorStatistics& statistics() const { return statistics_; }

 private:
  AllocatorStatistics statistics_;
};

/// Streams of the session become PyTorch's pool streams in the order in which they were made.
class AllocatorFeed final : public eager::Observer {
 public:
  /// Both must outlive the feed.
  AllocatorFeed(CachingAllocator& allocator, DeviceEvents& events, eager::KernelDevice device = {});

  void on_operator(eager::Session& s, const eager::OperatorCall& call) override;
  void on_storage_allocated(eager::Session& s, eager::StorageImpl& storage) override;
  void on_storage_freed(eager::Session& s, eager::StorageImpl& storage) override;
  void on_storage_resized(eager::Session& s, eager::StorageImpl& storage, Bytes before) override;
  void on_record_stream(eager::Session& s, eager::StorageImpl& storage,
                        eager::StreamId stream) override;
  void on_event_record(eager::Session& s, eager::EventId event, eager::StreamId stream) override;
  void on_event_wait(eager::Session& s, eager::EventId event, eager::StreamId waiting) override;
  void on_stream_wait(eager::Session& s, eager::StreamId waiting, eager::StreamId of) override;
  void on_host_wait(eager::Session& s, eager::EventId event) override;
  void on_host_sync(eager::Session& s) override;
  void on_cache_emptied(eager::Session& s) override;

  /// Asks the allocator for what has been told so far; otherwise the last storages may be waiting
  /// for the operator that they belong to.
  void catch_up();

 private:
  struct Asked {
    std::uint64_t storage = 0;
    Bytes bytes;
    DeviceStream stream;
  };
  void allocate(const Asked& asked);
  void release(std::uint64_t storage);
  std::optional<MemoryBlockId>& block_of(std::uint64_t storage);
  eager::ScratchRule rule_of(const eager::Operator& op);
  void play(const eager::OperatorCall& call, DeviceStream stream);
  void allocate_outputs(const eager::OperatorCall& call, bool outputs);
  void refuse_if_full() const;
  void undo_outputs(const eager::OperatorCall& call);

  CachingAllocator& allocator_;
  DeviceEvents& events_;
  eager::KernelDevice device_;
  std::vector<Asked> asked_;                          // since the last other call
  std::vector<std::optional<MemoryBlockId>> blocks_;  // by storage
  std::vector<DeviceEvent> recorded_;                 // by event of the session
  std::unordered_map<const eager::Operator*, eager::ScratchRule> rules_;
  eager::ScratchPlan plan_;
  std::vector<MemoryBlockId> pieces_;
  std::uint64_t first_fresh_ = 0;  // storages from here on were made by the running operator
  bool full_ = false;              // a request failed; nothing is asked any more
};

}  // namespace shardscope
