// The readers behind read_metric_log, one a format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "traces/measured/metric_log.h"

namespace shardscope {

/// An event file: TFRecords of tensorflow.Event. Sources: TensorFlow's record_writer.h, event.proto
/// and summary.proto.
bool is_event_file(std::string_view first_bytes);
/// The checksum of TFRecords: CRC-32C, rotated by 15 bits, plus a constant (TensorFlow's crc32c.h).
std::uint32_t masked_crc32c(std::string_view bytes);
MetricLog read_event_file(std::string_view bytes, const std::string& file);

/// A .wandb file: LevelDB's log blocks of wandb_internal.Record. Source: wandb 0.31's
/// wandb_internal.proto, and its core/internal/stream for the log.
bool is_wandb_file(std::string_view first_bytes);
/// The checksum of a piece of the log: zlib's CRC-32 of its kind and its bytes.
std::uint32_t wandb_checksum(std::string_view kind_and_bytes);
MetricLog read_wandb_file(std::string_view bytes, const std::string& file);

/// `nvidia-smi --query-gpu=... --format=csv`, with its header, and `nvidia-smi dmon`.
bool is_smi_log(std::string_view first_bytes);
MetricLog read_smi_log(std::string_view text, const std::string& file);

/// `sacct`, with --parsable, --parsable2 or as a table.
bool is_sacct(std::string_view first_bytes);
MetricLog read_sacct(std::string_view text, const std::string& file);

}  // namespace shardscope
