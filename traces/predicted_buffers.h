// The buffers of a predicted schedule as a file of the run folder, for whoever shows what is alive.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/schedule.h"

namespace shardscope {

/// One buffer, as `schedule --json` describes it (docs/cli.md, key `buffers`).
struct PredictedBuffer {
  std::string name, unit;  ///< unit "": the root, or none
  MemoryCategory category = MemoryCategory::activations;
  Bytes bytes;
  OperationId allocated_by;  ///< none: before the first step
  OperationId freed_by;      ///< none: never. Freed when this operation has ended
  bool operator==(const PredictedBuffer&) const = default;
};

/// In the order of the schedule, without those that are gone before the first step.
std::vector<PredictedBuffer> predicted_buffers(const Schedule& schedule);

/// All rows of the key `buffers` as a JSON array.
std::string buffers_json(const Schedule& schedule);

/// `{"schema": "shardscope.buffers/1", "buffers": [...]}` of `predicted_buffers` in gzip, written
/// atomically.
void write_buffers(const Schedule& schedule, const std::filesystem::path& path);

/// Reads what `write_buffers` writes, at most 256 MiB of text; keys it does not know are ignored.
/// Throws Error with file, line and key.
std::vector<PredictedBuffer> read_buffers(const std::filesystem::path& path);
std::vector<PredictedBuffer> parse_buffers(std::string_view text, std::string_view file_name);

}  // namespace shardscope
