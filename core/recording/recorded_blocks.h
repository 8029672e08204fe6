// Blocks of torch's caching allocator in a recording, and what they are for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/pytorch/runtimes/record/program_writer.h"
#include "core/recording/event_log.h"
#include "core/recording/recorded_names.h"
#include "core/recording/recorded_streams.h"
#include "core/recording/recorded_threads.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// Bytes of one block or copy: more than any device has is damage.
Bytes bytes_in(const LogLine& line, std::size_t field);

class RecordedBlocks {
 public:
  /// All of them must outlive this.
  RecordedBlocks(Schedule& schedule, ProgramWriter& writer, RecordedNames& names,
                 RecordedStreams& streams, RecordedThreads& threads)
      : schedule_(schedule), writer_(writer), names_(names), streams_(streams), threads_(threads) {}

  /// Of lines `alloc`, `free`, `uses` and `purpose`.
  void allocate(const LogLine& line);
  void free(const LogLine& line);
  void use(const LogLine& line);
  void tell_purpose(const LogLine& line);
  /// Of `malloc` and `oom`: whether the device has memory.
  void tell_device(const LogLine& line);
  /// Of `segment_free`: a cache that was emptied, but where torch gives back by itself.
  void give_back(const LogLine& line);
  /// Of `allocator`.
  void tell_settings(const LogLine& line);
  /// What only the end of the log tells, after the streams' end: what communicates, and cuBLAS's
  /// workspace, which stays.
  void finish();

 private:
  /// When a block was asked for: the phase, and the call that ran; 0: none.
  struct Birth {
    Phase phase;
    std::uint64_t serial;
  };

  /// Between what calls a thread is. Where the device refuses memory, torch gives back what it can
  /// and tries again at once.
  struct Moment {
    int thread = 0;
    std::uint64_t last_begun = 0;
    std::size_t running = 0;
    bool operator==(const Moment&) const = default;
  };

  Moment moment_of(const LogLine& line);
  std::uint16_t pool_of(const LogLine& line);
  void go_to_pool(std::uint16_t pool);

  Schedule& schedule_;
  ProgramWriter& writer_;
  RecordedNames& names_;
  RecordedStreams& streams_;
  RecordedThreads& threads_;
  std::unordered_map<std::int64_t, BufferId> live_;        ///< by address
  std::vector<Birth> born_;                                ///< by buffer
  std::unordered_map<std::int64_t, std::uint16_t> pools_;  ///< private ones, by torch's number
  std::uint16_t pool_ = 0;                                 ///< of the block before
  std::optional<Moment> refused_;                          ///< when the device had no memory
  bool collects_garbage_ = false;  ///< torch gives back when it reserves much
};

}  // namespace shardscope
