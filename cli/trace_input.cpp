#include "cli/trace_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>

#include "backend/train/stop_request.h"
#include "cli/terminal.h"
#include "core/error.h"
#include "core/quantities.h"

namespace shardscope {
namespace {

/// How much of the files is behind us, on one line that is written over.
class ProgressLine {
 public:
  explicit ProgressLine(bool shown) : shown_(shown) {}
  ~ProgressLine() {
    if (written_ > 0) fmt::print(stderr, "\r{:{}}\r", "", written_);
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void tell(const std::string& file, std::int64_t bytes) {
    const auto now = std::chrono::steady_clock::now();
    if (!shown_ || now - last_ < std::chrono::milliseconds(200)) return;
    last_ = now;
    const std::string line = fmt::format("{}: {}", file, rounded_text(Bytes{bytes}));
    fmt::print(stderr, "\r{:{}}", line, written_);
    std::fflush(stderr);
    written_ = std::max(written_, line.size());
  }

 private:
  bool shown_;
  std::size_t written_ = 0;
  std::chrono::steady_clock::time_point last_;
};

template <class Value>
void take(std::vector<Value>& from, std::vector<Value>& into) {
  into.insert(into.end(), std::make_move_iterator(from.begin()),
              std::make_move_iterator(from.end()));
}

}  // namespace

Imported read_traces(const std::vector<std::filesystem::path>& files, const OutputOptions& output) {
  const StopRequest stop;
  ProgressLine line(error_is_terminal() && !output.quiet);
  Imported all;
  for (const std::filesystem::path& file : files) {
    ImportOptions options;
    options.progress = [&, name = file.filename().string()](const ImportedTrace&,
                                                            std::int64_t file_bytes) {
      line.tell(name, file_bytes);
      return stop.asked();
    };
    Imported found = import_files(file, options);
    take(found.traces, all.traces);
    take(found.snapshots, all.snapshots);
    take(found.timelines, all.timelines);
    take(found.left_out, all.left_out);
  }
  if (stop.asked()) throw Error({.what = "stopped", .code = ExitCode::interrupted});
  return all;
}

}  // namespace shardscope
