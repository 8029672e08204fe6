#include "backend/checkpoint/checksum.h"

#include <gtest/gtest.h>

#include <vector>

namespace shardscope {
namespace {

// The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
TEST(Checksum, IsTheOneOfZipFiles) { EXPECT_EQ(crc32_text(crc32_of("123456789")), "cbf43926"); }

/// Bit by bit, as ISO 3309 defines it.
std::uint32_t defined_crc32(std::span<const std::byte> bytes, std::uint32_t before) {
  std::uint32_t crc = ~before;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

// 64 bytes are the first to be folded, in lanes of 64 and 16 bytes with a rest.
TEST(Checksum, OfAnyLengthAndPlaceIsAsDefined) {
  std::vector<std::byte> bytes(600);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i * 31 >> 3);
  for (std::size_t first = 0; first < 3; ++first)
    for (std::size_t count = 0; count < 300; ++count) {
      const auto part = std::span<const std::byte>(bytes).subspan(first, count);
      const auto before = static_cast<std::uint32_t>(count * 0x9e3779b1U);
      ASSERT_EQ(crc32_of(part, before), defined_crc32(part, before)) << first << ", " << count;
    }
}

TEST(Checksum, ChunksDoNotDependOnThePiecesThatAreAdded) {
  std::vector<std::byte> bytes(2 * checksum_chunk + 5);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 % 251);
  const std::span all(bytes);
  const std::vector<std::uint32_t> by_hand{crc32_of(all.first(checksum_chunk)),
                                           crc32_of(all.subspan(checksum_chunk, checksum_chunk)),
                                           crc32_of(all.last(5))};
  EXPECT_EQ(chunk_checksums(all), by_hand);
  ChunkChecksums in_pieces;
  for (std::size_t at = 0; at < bytes.size(); at += 700'001)
    in_pieces.add(all.subspan(at, std::min<std::size_t>(700'001, bytes.size() - at)));
  EXPECT_EQ(in_pieces.take(), by_hand);
}

TEST(Checksum, NothingHasNoChunks) { EXPECT_TRUE(chunk_checksums({}).empty()); }

}  // namespace
}  // namespace shardscope
