// What is taken at once from the arguments of Kineto's events.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "traces/import/imported_trace.h"
#include "traces/import/name_table.h"

namespace shardscope {

/// Of an activity of a device, or the call that launched one.
struct ActivityArguments {
  std::optional<std::int64_t> device, stream, correlation, bytes;
  bool has_unbelievable = false;  ///< a number that was left out for its size
};

/// Numbers that no machine has are taken as not there: bytes beyond 2^48 (256 TiB), devices other
/// than 0 to 4,095.
constexpr std::int64_t max_believed_bytes = std::int64_t{1} << 48;
constexpr std::int64_t max_believed_device = 4095;

/// `arguments` is JSON text in all of these; what is not there stays absent.
ActivityArguments activity_arguments(std::string_view arguments);

/// Of a [memory] event; none where a figure is missing. A device's number may be -1, as the CPU's
/// is.
struct MemoryArguments {
  MemoryDevice device;
  MemoryChange change;
  bool is_believable = true;  ///< a machine could have these numbers
};
std::optional<MemoryArguments> memory_arguments(std::string_view arguments);

/// NCCL's arguments, as record_param_comms and kernels have them.
CommunicationRow nccl_arguments(std::string_view arguments, NameTable& names);

/// Elements that an operator of c10d takes and gives, from "Input Dims" by the order of its
/// schema's arguments (torch/csrc/distributed/c10d/Ops.cpp); `name` is "c10d::allreduce_" or of
/// gloo's transport ("gloo:all_reduce"), which has "Input type" too.
CommunicationRow operator_arguments(std::string_view name, std::string_view arguments,
                                    NameTable& names);

}  // namespace shardscope
