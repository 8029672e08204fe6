#include "backend/comm/private_arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "backend/base/memory_mapping.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

class PrivateArena final : public Arena {
 public:
  explicit PrivateArena(Bytes size) : pages_(MemoryMapping::anonymous(size)), size_(size) {
    pages_.prefer_huge_pages();
  }
  std::byte* data() const override { return pages_.data(); }
  Bytes size() const override { return size_; }

 private:
  MemoryMapping pages_;
  Bytes size_;
};

class FileArena final : public Arena {
 public:
  FileArena(const FileDescriptor& file, Bytes size) : pages_(file, size), size_(size) {}
  std::byte* data() const override { return pages_.data(); }
  Bytes size() const override { return size_; }

 private:
  MemoryMapping pages_;
  Bytes size_;
};

Error no_file(const std::filesystem::path& folder, Bytes size, int error) {
  return Error({.where = folder.string(),
                .what = fmt::format("{} for what is offloaded cannot be had there: {}",
                                    rounded_text(size), std::strerror(error)),
                .way_out = "give --output on a disk with room, or offload less",
                .code = ExitCode::outside});
}

/// Some file systems (NFS, older overlays) have no files without names: there it loses its name.
FileDescriptor nameless_file(const std::filesystem::path& folder) {
  FileDescriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.valid() || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string name = (folder / "offload.XXXXXX").string();
  FileDescriptor named(::mkostemp(name.data(), O_CLOEXEC));
  if (named.valid()) ::unlink(name.c_str());
  return named;
}

}  // namespace

std::unique_ptr<Arena> make_file_arena(Bytes size, const std::filesystem::path& folder) {
  const FileDescriptor file = nameless_file(folder);
  if (!file.valid()) throw no_file(folder, size, errno);
  // Now, so that no write into a page finds the disk full.
  if (const int error = ::posix_fallocate(file.get(), 0, std::max(size.count, std::int64_t{1})))
    throw no_file(folder, size, error);
  return std::make_unique<FileArena>(file, size);
}

std::unique_ptr<Arena> make_private_arena(Bytes size) {
  return std::make_unique<PrivateArena>(size);
}

}  // namespace shardscope
