#include "backend/launch/rank_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/base/error.h"

namespace shardscope {
namespace {

constexpr std::size_t longest_line = 500;

}  // namespace

RankLog::RankLog(const std::filesystem::path& file)
    : path_(file),
      descriptor_(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (!descriptor_.valid()) {
    throw Error({.where = file.string(),
                 .what = errno_text("open"),
                 .way_out = "give a run folder that can be written",
                 .code = ExitCode::outside});
  }
}

void RankLog::write(std::string_view bytes) {
  if (descriptor_.valid()) write_whole(descriptor_.get(), bytes);
  for (const char c : bytes) {
    if (c == '\n' || c == '\r') {
      if (!line_.empty()) complete_line_ = std::move(line_);
      line_.clear();
    } else if (line_.size() < longest_line) {
      line_ += c;
    }
  }
}

std::string RankLog::last_line() const { return line_.empty() ? complete_line_ : line_; }

void write_whole(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace shardscope
