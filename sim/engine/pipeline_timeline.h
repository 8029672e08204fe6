// A pipeline whose stages are known by the time of their chunks alone.
#pragma once

#include <functional>
#include <vector>

#include "core/base/quantities.h"
#include "core/pipeline/program.h"

namespace shardscope {

/// Of one micro-batch in one stage. A full backward is both of the backwards.
struct ChunkTime {
  Duration forward, input_backward, weight_backward;
};

/// Of an action that is no chunk: 0.
Duration chunk_time(const Action& action, const ChunkTime& chunk);

struct PipelineTimes {
  std::vector<ChunkTime> chunks;  ///< by stage
  /// Of a send or receive between two ranks of the pipeline.
  std::function<Duration(int rank, int peer)> transfer;
  /// A rank's transfers follow each other in the order in which they are posted, as those of one
  /// communicator of NCCL do; else those to and from each peer have a channel of their own.
  bool one_channel = false;
};

/// An action or a transfer of a rank's program, when it ran.
struct PlayedAction {
  Action action;
  Duration start, end;
};

/// What each rank of the pipeline did, in the order of its program, as `pipeline_ends` plays it.
std::vector<std::vector<PlayedAction>> pipeline_timeline(
    const std::vector<PipelineProgram>& programs, const PipelineTimes& times);

/// When each rank has ended its part of the programs, which begin at 0. What is posted at once
/// moves at once; a transfer begins when both of its ranks have posted it. Throws Error
/// where ranks wait for each other.
std::vector<Duration> pipeline_ends(const std::vector<PipelineProgram>& programs,
                                    const PipelineTimes& times);

}  // namespace shardscope
