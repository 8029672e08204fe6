#include "core/format/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/format/descriptor.h"

namespace shardscope {
namespace {

std::string reason(int error_number) { return std::generic_category().message(error_number); }

bool is_written_directly(const std::filesystem::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// Bytes between two hints to the disk, and the most of one write.
constexpr std::int64_t stored_at_once = std::int64_t{8} << 20;

std::string way_out(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "free space there or choose another place";
    case ENOENT:
    case ENOTDIR:
      return "create the folder first or choose another place";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a place that can be written";
    default:
      return {};
  }
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  if (is_written_directly(path_)) {
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail(errno);
    return;
  }
  if (std::error_code ignored; std::filesystem::is_directory(path_, ignored)) fail(EISDIR);
  constexpr int attempts = 100;  // a process of the same id may have left some behind
  for (int attempt = 0; attempt < attempts && descriptor_ < 0; ++attempt) {
    temporary_ = folder_of(path_) /
                 fmt::format(".{}.{}.{}.partial", path_.filename().string(), getpid(), attempt);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ >= 0) return;
  temporary_.clear();
  fail(errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::write(descriptor_, bytes.data(),
                std::min(bytes.size(), static_cast<std::size_t>(stored_at_once)));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(written < 0 ? errno : EIO);
    written_ += written;
    if (written_ - storing_ >= stored_at_once) begin_to_store();
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// The disk begins with what was written last while more is written, so that the fsync at the end
/// waits less. Only a hint: what cannot be synchronised by ranges says no, and nothing is lost.
void AtomicFile::begin_to_store() {
  sync_file_range(descriptor_, storing_, written_ - storing_, SYNC_FILE_RANGE_WRITE);
  storing_ = written_;
}

void AtomicFile::commit() {
  if (temporary_.empty()) {
    const int closed = close(std::exchange(descriptor_, -1));
    if (closed != 0) fail(errno);
    return;
  }
  if (fsync(descriptor_) != 0) fail(errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
  close(std::exchange(descriptor_, -1));
  const Descriptor folder(folder_of(path_), O_RDONLY | O_DIRECTORY);
  // A file system that cannot sync folders says EINVAL; the file itself is whole either way.
  if (folder.value() >= 0 && fsync(folder.value()) != 0 && errno != EINVAL) fail(errno);
}

void AtomicFile::fail(int error_number) const {
  throw Error({.where = path_.string(),
               .what = "cannot be written: " + reason(error_number),
               .way_out = way_out(error_number),
               .code = ExitCode::outside});
}

void write_atomically(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

std::string read_whole(const std::filesystem::path& path, std::int64_t max_bytes) {
  const auto fail = [&](const std::string& what) {
    throw Error({.where = path.string(), .what = "cannot be read: " + what, .way_out = {}});
  };
  const Descriptor file(path, O_RDONLY);
  if (file.value() < 0) fail(reason(errno));
  struct stat status {};
  if (fstat(file.value(), &status) != 0) fail(reason(errno));
  if (S_ISDIR(status.st_mode)) fail("it is a folder");
  // One byte more than expected, so that the read that finds the end needs no second buffer.
  std::string content(
      static_cast<std::size_t>(std::clamp<std::int64_t>(status.st_size, 4095, max_bytes) + 1),
      '\0');
  std::size_t filled = 0;
  while (true) {
    const ssize_t got = read(file.value(), content.data() + filled, content.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(reason(errno));
    filled += static_cast<std::size_t>(got);
    if (static_cast<std::int64_t>(filled) > max_bytes)
      fail(fmt::format("it is larger than {} bytes", max_bytes));
    if (got == 0) break;
    if (filled == content.size()) content.resize(content.size() * 2);
  }
  content.resize(filled);
  return content;
}

void create_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && std::filesystem::is_directory(path, error)) return;
  throw Error(
      {.where = path.string(),
       .what = "cannot be created as a folder: " + (error ? error.message() : reason(ENOTDIR)),
       .way_out = {},
       .code = ExitCode::outside});
}

}  // namespace shardscope
