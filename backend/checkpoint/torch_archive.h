// Tensors as torch.save writes them: a zip archive with a pickle and the bytes of the storage. The
// pickle is read as data; nothing of it is executed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/base/file_descriptor.h"
#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/model/model.h"
#include "traces/import/pickle.h"

namespace shardscope {

// Bounds of names and shapes in such files: what a pickle shares is copied for each tensor.
inline constexpr std::size_t longest_tensor_name = 1000;
inline constexpr std::int64_t most_tensors = std::int64_t{1} << 20;
inline constexpr std::size_t most_dimensions = 64;

/// A file that is read by position.
class PositionedFile {
 public:
  explicit PositionedFile(std::filesystem::path path);
  const std::filesystem::path& path() const { return path_; }
  std::int64_t bytes() const { return bytes_; }
  bool is_open() const { return file_.valid(); }
  void close() { file_ = FileDescriptor(); }
  /// Opens it again. Throws Error where its size is not what it was.
  void open();
  /// Throws Error where the file ends before. The file is open.
  void read(std::int64_t offset, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  std::int64_t bytes_ = 0;
};

/// A contiguous tensor of floating-point numbers in such an archive.
struct ArchivedTensor {
  Dtype dtype = Dtype::float32;
  Shape shape;
  std::int64_t offset = 0;          ///< of its first element in the file
  std::int64_t storage_offset = 0;  ///< in the file
  std::int64_t storage_bytes = 0;
  std::optional<std::uint32_t> storage_crc32 = {};  ///< none: the archive has no checksums
};

/// What an archive may take in memory.
struct ArchiveBounds {
  std::int64_t directory_bytes = std::int64_t{64} << 20;
  std::int64_t pickle_bytes = std::int64_t{256} << 20;
  std::uint32_t pickle_cells = std::uint32_t{1} << 25;
};

/// The archive in bytes [offset, offset + length) of a file: its pickle, and where the bytes of its
/// tensors lie. Files of more than 4 GiB are zip64's. What torch wrote after
/// set_crc32_options(False) has no checksums, and is read without them.
class TorchArchive {
 public:
  /// Throws Error (bad_input): no such archive, compressed, damaged, members that overlap, a pickle
  /// out of bounds.
  TorchArchive(const PositionedFile& file, std::int64_t offset, std::int64_t length,
               const ArchiveBounds& bounds = {});

  const Pickle& pickle() const { return pickle_; }
  /// Whether a value of the pickle is a tensor of floating-point numbers.
  bool is_tensor(PickleValue value) const;
  /// Throws Error (bad_input) for what is none, not contiguous, or larger than its storage.
  ArchivedTensor tensor(PickleValue value) const;

 private:
  struct Member {
    std::int64_t header = 0;  ///< of its local header in the archive
    std::int64_t bytes = 0;
    std::uint32_t crc32 = 0;
  };
  struct Directory {
    std::int64_t entries = 0, bytes = 0, offset = 0;
  };

  Error error(std::string what) const;
  std::string text_at(const PositionedFile& file, std::int64_t offset, std::int64_t bytes) const;
  Directory find_directory(const PositionedFile& file) const;
  Directory wide_directory(const PositionedFile& file, std::int64_t locator) const;
  void read_directory(const PositionedFile& file, const ArchiveBounds& bounds);
  std::size_t read_entry(const std::string& directory, std::size_t at);
  void place_members(const PositionedFile& file);
  const Member& member(std::string_view name) const;
  /// The arguments of what rebuilds a tensor; none for other values.
  std::span<const PickleValue> rebuilt(PickleValue value) const;
  std::span<const PickleValue> storage_of(std::span<const PickleValue> arguments) const;
  Shape shape_of(PickleValue value) const;

  std::string path_;
  std::int64_t begin_, length_;
  std::map<std::string, Member, std::less<>> members_;  ///< by name behind the folder
  bool has_checksums_ = false;                          ///< one of them is not 0
  Pickle pickle_;
};

/// The tensor that an archive consists of. Throws Error (bad_input), also for another value.
ArchivedTensor find_archived_tensor(const PositionedFile& file, std::int64_t offset,
                                    std::int64_t length);

/// Elements [first, first + out.size()) as float. `scratch` is overwritten. Throws Error.
void read_floats(const PositionedFile& file, const ArchivedTensor& tensor, std::int64_t first,
                 std::span<float> out, std::vector<std::byte>& scratch);

/// Reads all of a tensor's storage. Throws Error naming `tensor_name` where its checksum is wrong.
/// Without a checksum it does nothing.
void check_storage(const PositionedFile& file, const ArchivedTensor& tensor,
                   const std::string& tensor_name, std::vector<std::byte>& scratch);

}  // namespace shardscope
