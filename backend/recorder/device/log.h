// The log of a recorded process: lines of text in a mapped file, so that all that was written is
// there whatever ends the process. docs/recording.md describes the lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardscope::recorder {

/// Appends one line, fields separated by tabs, under the calling thread's number. Nothing where no
/// recording is asked for (SHARDSCOPE_RECORD names its folder) or the disk is full.
[[gnu::format(printf, 1, 2)]] void log_line(const char* format, ...);

/// The number under which lines name this text; writes "S number text" the first time.
std::uint32_t text_id(std::string_view text);

/// What has that number.
std::string text_of(std::uint32_t id);

/// Writes END: the process ends by itself.
void end_log();

/// A whole number from the environment.
long setting(const char* name, long usual);

}  // namespace shardscope::recorder
