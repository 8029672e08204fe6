// The log that a recorded process leaves (docs/recording.md): lines with a thread and a kind.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <future>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/format/mapped_file.h"

namespace shardscope {

/// Kinds of lines, by the names of docs/recording.md.
enum class LogKind : std::uint8_t {
  other,  ///< facts of the device's and the host's memory, which nothing is made of
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
  oom,
  segment_free,
  malloc,
  uses,
  enter,
  leave,
  phase,
  purpose,
  tuning,
  graph,
  unknown,
  invented,
  asked,
  torch,
  allocator,
  statistics,
};

struct LogLine {
  const char* begin = nullptr;  ///< of what follows the kind, with tabs between; null: nothing does
  /// The first fields, as far as they are whole numbers of at most 18 digits.
  std::array<std::int64_t, 3> numbers{};
  std::uint32_t size = 0;
  std::uint32_t number = 0;  ///< in the file, from 1
  int thread = 0;
  LogKind kind = LogKind::other;
  std::uint8_t leading_numbers = 0;  ///< of `numbers`, how many there are
  bool has_more = false;             ///< fields behind these

  std::string_view fields() const { return {begin, size}; }
  /// Bytes, counts and addresses are below it.
  static constexpr std::int64_t largest = std::int64_t{1} << 53;
  /// A whole number of -1 to `most`; throws Error naming the line where there is none.
  std::int64_t integer(std::size_t field, std::int64_t most = largest) const {
    return field < leading_numbers ? checked(numbers[field], most) : later_integer(field, most);
  }
  std::string_view text(std::size_t field) const;
  bool has(std::size_t field) const;

 private:
  std::int64_t checked(std::int64_t value, std::int64_t most) const {
    if (value < -1 || value > most) throw no_number(most);
    return value;
  }
  std::int64_t later_integer(std::size_t field, std::int64_t most) const;
  Error no_number(std::int64_t most) const;
  Error lacks(std::size_t field) const;
};

/// Lines that follow each other, as one thread read them.
struct LogPart {
  std::vector<std::string_view> texts;
  std::vector<LogLine> lines;
  std::uint32_t count = 0;  ///< of all lines, also those that are left out
  std::string_view last;
};

/// As many as the machine has, at most 8.
std::size_t log_threads();

/// A log's lines in the order in which they were written. Other threads read ahead of the caller.
/// Lines look into the file, which must not shrink.
class EventLog {
 public:
  /// Throws Error where the file cannot be read or is of another version. Lines of other kinds are
  /// left out.
  explicit EventLog(const std::filesystem::path& path, std::size_t threads = log_threads());
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  /// Goes to the next lines; false: there are no more.
  bool next();
  /// Until `next` is called again.
  const std::vector<LogLine>& lines() const { return part_.lines; }
  /// Whether these lines come after the end of the last step.
  bool is_after_steps() const { return pieces_[next_ - 1].data() >= end_of_steps_; }
  /// What lines so far name by that number; throws Error where nothing has it.
  std::string_view text(std::int64_t number) const;
  std::size_t texts() const { return texts_.size(); }
  /// Did the process end by itself, when all is read. Otherwise what there is, is there.
  bool is_whole() const { return is_whole_; }
  std::size_t bytes() const { return file_.bytes().size(); }

 private:
  void read_ahead(LogPart used);

  std::filesystem::path path_;
  MappedFile file_;
  std::vector<std::string_view> pieces_;
  const char* end_of_steps_ = nullptr;
  std::size_t next_ = 0, begun_ = 0;  ///< pieces
  std::vector<std::string_view> texts_;
  LogPart part_;
  std::uint32_t count_ = 0;  ///< of all lines so far
  bool is_whole_ = false;
  std::deque<std::future<LogPart>> ahead_;
};

}  // namespace shardscope
