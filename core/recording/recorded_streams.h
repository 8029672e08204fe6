// Streams and events of a recorded process as lanes of a host program.
#pragma once

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

  /// A lane is of the `Stream` that it does most for. Schedule and writer must outlive this.
  RecordedStreams(const EventLog& log, const Schedule& schedule, ProgramWriter& writer);

  /// Of a CUDA stream; 0 is the default one. Throws Error of more than 250.
  LaneIndex lane_of(std::int64_t stream);
  Stream stream_of(LaneIndex lane) const { return schedule_.program.lanes[lane].stream; }

  /// Of lines of these kinds.
  void record(const LogLine& line);
  void wait(const LogLine& line);
  void host_wait(const LogLine& line);
  void synchronize(const LogLine& line);

 private:
  const Schedule& schedule_;
  ProgramWriter& writer_;
  std::map<std::int64_t, Stream> uses_;                    ///< by CUDA stream
  std::map<std::int64_t, LaneIndex> lanes_;                ///< alike
  std::unordered_map<std::string, std::uint32_t> events_;  ///< by the log's number
};

}  // namespace shardscope
