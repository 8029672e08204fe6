// Checksums of stored tensors, in chunks, so that a part of a tensor can be read and checked alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope {

/// CRC-32 as zlib and gzip have it; behind bytes whose checksum is `before`.
std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before = 0);
std::uint32_t crc32_of(std::string_view text);
/// "00000000" to "ffffffff".
std::string crc32_text(std::uint32_t value);

/// Bytes of a tensor that one checksum covers; the last chunk of a tensor may be shorter.
inline constexpr std::int64_t checksum_chunk = 1 << 18;

/// Takes the bytes of one tensor in pieces of any size.
class ChunkChecksums {
 public:
  void add(std::span<const std::byte> bytes);
  /// One for each chunk, the unfinished one included.
  std::vector<std::uint32_t> take();

 private:
  std::vector<std::uint32_t> finished_;
  std::uint32_t running_ = 0;
  std::int64_t in_chunk_ = 0;
};

std::vector<std::uint32_t> chunk_checksums(std::span<const std::byte> bytes);

}  // namespace shardscope
