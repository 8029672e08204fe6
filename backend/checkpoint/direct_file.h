// A large new file, written past the page cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "backend/base/file_descriptor.h"
#include "backend/base/memory_mapping.h"

namespace shardscope {

/// A file under construction, like an AtomicFile: a temporary that takes its place on `commit`, and
/// is removed without one. Blocks go to the disk as they are, where its file system can do that
/// (O_DIRECT). That takes a third to a tenth of the processor time of copies in the page cache, and
/// leaves the cache to others. Every failure throws Error (ExitCode::outside).
class DirectFile {
 public:
  explicit DirectFile(std::filesystem::path path);
  ~DirectFile();
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  void write(std::span<const std::byte> bytes);
  /// fsync, rename, fsync of the folder; before it, `begin` is written over the file's first bytes.
  /// Throws std::logic_error unless `expected_bytes` were written.
  void commit(std::int64_t expected_bytes, std::span<const std::byte> begin = {});

 private:
  void write_now(std::span<const std::byte> bytes);
  void leave_direct();
  [[noreturn]] void fail(int error_number) const;

  std::filesystem::path path_, temporary_;
  MemoryMapping block_;
  bool is_direct_ = true;
  FileDescriptor file_;
  std::size_t filled_ = 0;  ///< bytes of the block
  std::int64_t written_ = 0;
};

}  // namespace shardscope
