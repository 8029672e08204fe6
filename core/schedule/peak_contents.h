// What is alive at a point of a schedule's host program.
#pragma once

#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {

struct ProgramContents {
  std::uint32_t action = 0;       ///< after which it is so
  OperationId operation;          ///< the last one issued by then; none: none yet
  Bytes total;                    ///< of the buffers, each rounded up to 512 bytes
  std::vector<BufferId> buffers;  ///< alive, in order of their ids
};

/// Where the bytes of live buffers are highest within a step; the first such point.
ProgramContents contents_at_peak(const Schedule& schedule, const Step& step);
/// When the host is about to ask for what `operation` needs.
ProgramContents contents_before(const Schedule& schedule, OperationId operation);

}  // namespace shardscope
