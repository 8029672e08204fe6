// The collectives of an imported trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/schedule/schedule.h"
#include "traces/import/imported_trace.h"

namespace shardscope {

/// One collective as a trace shows it. What the trace does not say is absent.
struct ImportedCollective {
  std::uint32_t event = 0;  ///< the kernel; without a device the host's operator
  std::string name;         ///< of that event
  std::optional<OperationKind> kind;
  std::string group;        ///< name of the process group
  std::string group_ranks;  ///< as the trace writes them: "[0, 1]"
  std::optional<std::int64_t> group_size;
  std::optional<std::int64_t> sequence;  ///< among the calls of its group
  std::optional<std::int64_t> elements_in, elements_out;
  std::optional<Dtype> dtype;
  Duration start, duration;
};

/// Where a device ran communication kernels, those, by start; else the operators of c10d on the
/// host, in order of start, whose duration is that of the call and not of the transfer. A kernel
/// without NCCL's arguments takes those of the record_param_comms that encloses its launch.
std::vector<ImportedCollective> imported_collectives(const ImportedTrace& trace);

/// The bandwidth that NCCL's tests call busbw: bytes that each rank's link must carry, over the
/// time. Of all-reduce 2(n-1)/n times its size, of all-gather, reduce-scatter and all-to-all
/// (n-1)/n times the gathered size, of the others the size. None where size, group or duration is
/// not known, or for a group of one. Source: nccl-tests, doc/PERFORMANCE.md.
/// Example: all-reduce of 1,000 float32 by 4 ranks in 2 us: 4,000 B * 1.5 / 2 us = 3 GB/s.
std::optional<Bandwidth> bus_bandwidth(const ImportedCollective& collective);

}  // namespace shardscope
