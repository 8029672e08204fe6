#include "backend/train/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace shardscope {

LineFile::LineFile(std::filesystem::path path, Existing existing) : path_(std::move(path)) {
  const int truncate = existing == Existing::started_anew ? O_TRUNC : 0;
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | truncate | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail();
}

LineFile::LineFile(LineFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

LineFile::~LineFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void LineFile::append(std::string_view line) {
  const std::string whole = std::string(line) + "\n";
  ssize_t written = 0;
  do {
    written = ::write(descriptor_, whole.data(), whole.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(whole.size())) return;
  if (written >= 0) errno = ENOSPC;
  fail();
}

void LineFile::fail() const {
  throw Error({.where = path_.string(),
               .what = std::strerror(errno),
               .way_out = "free some space or give another output folder",
               .code = ExitCode::outside});
}

}  // namespace shardscope
