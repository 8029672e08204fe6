// Streams and events of a recorded process as lanes of a host program.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "core/pytorch/runtimes/record/program_writer.h"
#include "core/recording/event_log.h"
#include "core/schedule/schedule.h"

namespace shardscope {

class RecordedStreams {
 public:
  using LaneIndex = ProgramWriter::LaneIndex;

  /// Schedule and writer must outlive this.
  RecordedStreams(Schedule& schedule, ProgramWriter& writer);

  /// Of a CUDA stream; 0 is the default one. Throws Error of more than 250.
  LaneIndex lane_of(std::int64_t stream);

  /// Of any line.
  void count_use(const LogLine& line);
  /// Gives lanes, and operations on them, the `Stream` that they do most for: only the whole log
  /// tells.
  void finish();

  /// Of lines of these kinds.
  void record(const LogLine& line);
  void wait(const LogLine& line);
  void host_wait(const LogLine& line);
  void synchronize(const LogLine& line);

 private:
  using Uses = std::array<std::int64_t, stream_count>;  ///< lines, by `Stream`
  Uses& uses_of(std::int64_t stream);

  Schedule& schedule_;
  ProgramWriter& writer_;
  std::map<std::int64_t, Uses> uses_;  ///< by CUDA stream
  Uses* last_uses_ = nullptr;          ///< of `last_stream_`
  std::int64_t last_stream_ = 0;
  std::map<std::int64_t, LaneIndex> lanes_;                ///< by CUDA stream
  std::unordered_map<std::string, std::uint32_t> events_;  ///< by the log's number
};

}  // namespace shardscope
