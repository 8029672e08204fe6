// Tensors as torch.save writes them: a zip archive with a pickle and the bytes of the storage. The
// pickle is read as data; nothing of it is executed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "backend/base/file_descriptor.h"
#include "core/base/dtype.h"
#include "core/model/model.h"

namespace shardscope {

/// A file that is read by position.
class PositionedFile {
 public:
  explicit PositionedFile(std::filesystem::path path);
  const std::filesystem::path& path() const { return path_; }
  std::int64_t bytes() const { return bytes_; }
  /// Throws Error where the file ends before.
  void read(std::int64_t offset, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  std::int64_t bytes_ = 0;
};

/// A contiguous tensor of such an archive.
struct ArchivedTensor {
  Dtype dtype = Dtype::float32;
  Shape shape;
  std::int64_t offset = 0;  ///< of its first element in the file
  std::int64_t storage_offset = 0, storage_bytes = 0;
  std::uint32_t storage_crc32 = 0;
};

/// The tensor of the archive in bytes [offset, offset + length) of a file. Throws Error
/// (bad_input): no such archive, compressed, not contiguous, an element type without floating
/// point, larger than 4 GiB.
ArchivedTensor find_archived_tensor(const PositionedFile& file, std::int64_t offset,
                                    std::int64_t length);

/// Such an archive of a contiguous float32 tensor, but for the storage: `head` comes before its
/// bytes, `tail` behind them.
struct ArchiveFrame {
  std::string head, tail;
};
ArchiveFrame archive_frame(const Shape& shape, std::uint32_t storage_crc32);

}  // namespace shardscope
