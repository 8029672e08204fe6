// A file's bytes as read-only memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace shardscope {

/// Owner of a read-only mapping; pages come in as they are read. The file must not shrink while it
/// is mapped.
class MappedFile {
 public:
  /// Throws Error (bad_input) with the path and the system's reason. An empty file gives an empty
  /// span.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace shardscope
