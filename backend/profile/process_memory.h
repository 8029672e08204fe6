// What this process holds of the host's memory, and who in it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/base/file_descriptor.h"
#include "core/base/quantities.h"
#include "traces/trace.h"

namespace shardscope {

/// One mapping of /proc/self/smaps.
struct MappedRange {
  std::uint64_t begin = 0, end = 0;
  std::string name;  ///< a file's path, "[heap]"; "": anonymous memory
  Bytes pss;         ///< resident pages, those shared among n processes counted 1/n
  bool operator==(const MappedRange&) const = default;
};
/// Of the text of smaps (proc(5)); what it does not understand it passes over.
std::vector<MappedRange> parse_mappings(std::string_view smaps);
/// Of this process now; empty where /proc does not say.
std::vector<MappedRange> own_mappings();

/// Sums by who a mapping is of, what is not there left out, largest first: the arena, those of
/// peers that are read in place, the communicator's control memory, libraries' shared memory
/// (MPI's), heap and stacks, code and data of libraries, files. `arena`: its addresses.
std::vector<MemoryHolder> holders_of(const std::vector<MappedRange>& mappings,
                                     std::span<const std::byte> arena);

/// Resident pages, and those of them that are a file's or shared. Source: /proc/self/statm, a
/// microsecond to read; the kernel counts in batches a thread, so that a few hundred KiB may be
/// missing.
struct ResidentSize {
  Bytes all;
  Bytes shared;
  bool operator==(const ResidentSize&) const = default;
};
std::optional<ResidentSize> parse_resident_size(std::string_view statm, Bytes page);

/// Reads it again and again, and allocates nothing.
class ResidentSizeReader {
 public:
  ResidentSizeReader();
  std::optional<ResidentSize> read() const;

 private:
  FileDescriptor file_;
  Bytes page_;
};

}  // namespace shardscope
