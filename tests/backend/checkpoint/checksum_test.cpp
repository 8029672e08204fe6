#include "backend/checkpoint/checksum.h"

#include <gtest/gtest.h>

#include <vector>

namespace shardscope {
namespace {

// The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
TEST(Checksum, IsTheOneOfZipFiles) { EXPECT_EQ(crc32_text(crc32_of("123456789")), "cbf43926"); }

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
