// What one rank writes to standard error, on its way to its log.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "backend/base/file_descriptor.h"

namespace shardscope {

/// Writes to a file and keeps the last line that is not empty. A disk that is full loses log lines,
/// not the job.
class RankLog {
 public:
  RankLog() = default;
  /// Creates or empties the file.
  explicit RankLog(const std::filesystem::path& file);

  void write(std::string_view bytes);
  /// At most 500 bytes of it.
  std::string last_line() const;
  const std::filesystem::path& file() const { return path_; }

 private:
  std::filesystem::path path_;
  FileDescriptor descriptor_;
  std::string complete_line_;
  std::string line_;
};

/// Writes all of it, or as much as the descriptor takes.
void write_whole(int descriptor, std::string_view bytes);

}  // namespace shardscope
