// The log that a recorded process leaves (docs/recording.md): lines with a thread and a kind.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace shardscope {

/// Kinds of lines, by the names of docs/recording.md.
enum class LogKind : std::uint8_t {
  other,  ///< facts of segments and the host's memory, which nothing is made of
  op,
  node,
  end,
  views,  ///< operators that did nothing but make views
  kernel,
  gemm,
  dnn,
  copy,
  set,
  nccl,
  group,
  communicator,
  record,
  wait,
  host_wait,
  sync,
  alloc,
  free,
  uses,
  enter,
  leave,
  phase,
  purpose,
  tuning,
  unknown,
  invented,
  asked,
  torch,
  allocator,
  statistics,
};

/// Small, since a recording of a large model has a million of them.
struct LogLine {
  const char* begin = nullptr;  ///< of what follows the kind, with tabs between; null: nothing does
  std::uint32_t size = 0;
  std::uint32_t number = 0;  ///< in the file, from 1
  int thread = 0;
  LogKind kind = LogKind::other;

  std::string_view fields() const { return {begin, size}; }
  /// Bytes, counts and addresses are below it.
  static constexpr std::int64_t largest = std::int64_t{1} << 53;
  /// A whole number of -1 to `most`; throws Error naming the line where there is none.
  std::int64_t integer(std::size_t field, std::int64_t most = largest) const;
  /// The first three fields as `integer` has each of them.
  std::array<std::int64_t, 3> three_integers(std::array<std::int64_t, 3> most = {largest, largest,
                                                                                 largest}) const;
  std::string_view text(std::size_t field) const;
  bool has(std::size_t field) const;

 private:
  Error no_number(std::int64_t most) const;
  Error lacks(std::size_t field) const;
};

/// What one thread read.
struct LogPart {
  std::vector<std::string_view> texts;
  std::vector<LogLine> lines;
  std::uint32_t count = 0;  ///< of all lines, also those that are left out
  std::string_view last;
};

/// As many as the machine has, at most 8.
std::size_t log_threads();

/// The file's text and its lines, in the order in which they were written. Not copied: lines look
/// into the text.
class EventLog {
 public:
  /// Throws Error where the file cannot be read or is of another version. Lines of other kinds are
  /// left out.
  explicit EventLog(const std::filesystem::path& path, std::size_t threads = log_threads());
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  /// Pieces that follow each other, of one line or more.
  const std::vector<std::vector<LogLine>>& pieces() const { return pieces_; }
  /// What lines name by that number; throws Error where nothing has it.
  std::string_view text(std::int64_t number) const;
  std::size_t texts() const { return texts_.size(); }
  /// Did the process end by itself. Otherwise what there is, is there.
  bool is_whole() const { return is_whole_; }

 private:
  void take(LogPart part);

  std::filesystem::path path_;
  std::string content_;
  std::vector<std::string_view> texts_;
  std::vector<std::vector<LogLine>> pieces_;
  std::uint32_t count_ = 0;  ///< of all lines
  bool is_whole_ = false;
};

}  // namespace shardscope
