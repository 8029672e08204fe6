#include "backend/checkpoint/direct_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "backend/checkpoint/checkpoint_folder.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

/// A multiple of what any disk asks for.
constexpr std::int64_t block_bytes = std::int64_t{4} << 20;

constexpr int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;

}  // namespace

DirectFile::DirectFile(fs::path path)
    : path_(std::move(path)),
      temporary_(path_.parent_path() /
                 fmt::format(".{}.{}.partial", path_.filename().string(), ::getpid())),
      block_(MemoryMapping::anonymous(Bytes{block_bytes})),
      file_(::open(temporary_.c_str(), flags | O_DIRECT, 0666)) {
  if (!file_.valid() && errno == EINVAL) {
    is_direct_ = false;
    file_ = FileDescriptor(::open(temporary_.c_str(), flags, 0666));
  }
  if (!file_.valid()) fail(errno);
}

DirectFile::~DirectFile() {
  if (!file_.valid()) return;
  file_.close();
  ::unlink(temporary_.c_str());
}

void DirectFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), block_.size() - filled_);
    std::memcpy(block_.data() + filled_, bytes.data(), count);
    bytes = bytes.subspan(count);
    filled_ += count;
    written_ += static_cast<std::int64_t>(count);
    if (filled_ == block_.size()) {
      write_now({block_.data(), std::exchange(filled_, 0)});
    }
  }
}

void DirectFile::write_now(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(file_.get(), bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    // It asks for larger blocks, or wrote a part of one.
    if (done < 0 && errno == EINVAL && is_direct_) {
      leave_direct();
      continue;
    }
    if (done <= 0) fail(done < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void DirectFile::leave_direct() {
  if (!std::exchange(is_direct_, false)) return;
  const int now = ::fcntl(file_.get(), F_GETFL);
  if (now < 0 || ::fcntl(file_.get(), F_SETFL, now & ~O_DIRECT) != 0) fail(errno);
}

void DirectFile::commit(std::int64_t expected_bytes, std::span<const std::byte> begin) {
  if (written_ != expected_bytes)
    throw std::logic_error(
        fmt::format("{} bytes were written, {} were promised", written_, expected_bytes));
  leave_direct();
  write_now({block_.data(), std::exchange(filled_, 0)});
  if (!begin.empty()) {
    if (::lseek(file_.get(), 0, SEEK_SET) != 0) fail(errno);
    write_now(begin);
  }
  if (::fsync(file_.get()) != 0) fail(errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
  file_.close();
  sync_folder(path_.parent_path());
}

void DirectFile::fail(int error_number) const {
  const bool is_full = error_number == ENOSPC || error_number == EDQUOT;
  throw Error({.where = path_.string(),
               .what = "cannot be written: " + std::generic_category().message(error_number),
               .way_out = is_full ? "free space there or choose another place" : "",
               .code = ExitCode::outside});
}

}  // namespace shardscope
