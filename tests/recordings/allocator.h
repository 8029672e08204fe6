// The parts of the kind `allocator`.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/allocator/allocator_trace.h"
#include "tests/recordings/recordings.h"

namespace shardscope::recordings {

Outcome check_allocator_ops(const nlohmann::ordered_json& recorded, const Options& options);
std::vector<std::string> allocator_ops_fields();
Outcome check_allocator_steps(const nlohmann::ordered_json& recorded, const Options& options);
std::vector<std::string> allocator_steps_fields();

/// A stream's number in a recording.
using StreamNumber = std::function<int(DeviceStream)>;
/// [[action, segment, offset, bytes, stream]] with the letters of the recordings.
nlohmann::ordered_json trace_rows(const std::vector<AllocatorTraceEntry>& trace,
                                  const StreamNumber& number_of);

}  // namespace shardscope::recordings
