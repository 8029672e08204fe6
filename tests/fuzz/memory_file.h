// Bytes as a file, for readers that take a path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace shardscope::fuzz {

/// A file in memory with a path of its own; gone with the object.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path path() const;

 private:
  int descriptor_;
};

}  // namespace shardscope::fuzz
