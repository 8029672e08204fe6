// Blocks of torch's caching allocator in a recording, and what they are for.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/pytorch/runtimes/record/program_writer.h"
#include "core/recording/event_log.h"
#include "core/recording/recorded_streams.h"
#include "core/recording/recorded_threads.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// Bytes of one block or copy: more than any device has is damage.
Bytes bytes_in(const LogLine& line, std::size_t field);

class RecordedBlocks {
 public:
  /// All of them must outlive this.
  RecordedBlocks(Schedule& schedule, ProgramWriter& writer, RecordedStreams& streams,
                 RecordedThreads& threads)
      : schedule_(schedule), writer_(writer), streams_(streams), threads_(threads) {}

  /// Of lines `alloc`, `free`, `uses` and `purpose`.
  void allocate(const LogLine& line);
  void free(const LogLine& line);
  void use(const LogLine& line);
  void tell_purpose(const LogLine& line);
  /// What only the end of the log tells, after the streams' end: what communicates, and cuBLAS's
  /// workspace, which stays.
  void finish();

 private:
  /// When a block was asked for: the phase, and the call that ran; 0: none.
  struct Birth {
    Phase phase;
    std::uint64_t serial;
  };

  Schedule& schedule_;
  ProgramWriter& writer_;
  RecordedStreams& streams_;
  RecordedThreads& threads_;
  std::unordered_map<std::int64_t, BufferId> live_;  ///< by address
  std::vector<Birth> born_;                          ///< by buffer
};

}  // namespace shardscope
