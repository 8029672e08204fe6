// FSDP2's all-gather: shards copied into one buffer, gathered, copied out parameter by parameter.
// Source: torch 2.15, _fsdp_collectives.py.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/pytorch/runtimes/fsdp2/parameter.h"

namespace shardscope::eager::fsdp2 {

using Parameters = std::vector<std::unique_ptr<Parameter>>;

/// AllGatherResult.
struct AllGatherResult {
  Tensor output;
  EventId event;
  WorkId work;                             ///< of an async_op, to be waited for; or none
  std::vector<Dtype> input_dtypes;         ///< by parameter
  std::vector<std::int64_t> input_numels;  ///< by parameter
};

struct AllGatherStreams {
  StreamId copy_in, gather;
};

/// foreach_all_gather. The rank's own part is copied straight to its place in the output.
AllGatherResult all_gather(Session& s, const Parameters& parameters, const ProcessGroup& group,
                           bool asynchronous, AllGatherStreams streams);

/// foreach_all_gather_copy_out, on the current stream.
void copy_out(Session& s, const AllGatherResult& result, const Parameters& parameters,
              const ProcessGroup& group);

}  // namespace shardscope::eager::fsdp2
