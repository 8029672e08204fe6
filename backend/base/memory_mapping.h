// Mapped memory and its owner.
#pragma once

#include <cstddef>
#include <span>

#include "backend/base/file_descriptor.h"
#include "core/base/quantities.h"

namespace shardscope {

/// Pages that are unmapped when their owner goes; zero until written. Aligned to huge pages where
/// one fits, else to pages.
class MemoryMapping {
 public:
  MemoryMapping() = default;
  /// The first `size` bytes of a memory file, shared with every process that maps it.
  MemoryMapping(const FileDescriptor& file, Bytes size);
  /// Memory of this process alone.
  static MemoryMapping anonymous(Bytes size);
  MemoryMapping(MemoryMapping&& other) noexcept;
  MemoryMapping& operator=(MemoryMapping&& other) noexcept;
  ~MemoryMapping();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

  /// Asks the kernel to back all of it with huge pages now, where it has any; without them the same
  /// memory is there, slower. Matrix products walk down columns: with pages of 4 KiB nearly every
  /// row of one misses the TLB.
  void prefer_huge_pages();

 private:
  void map(int descriptor, Bytes size);
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A file of zeros that has no name and lives as long as somebody holds or maps it.
FileDescriptor memory_file(const char* label, Bytes size);

}  // namespace shardscope
