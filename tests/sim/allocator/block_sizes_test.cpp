#include "sim/allocator/block_sizes.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

const AllocatorSettings plain;

TEST(BlockSizes, RoundsUpToMultiplesOf512) {
  EXPECT_EQ(block_bytes(1, plain), 512);
  EXPECT_EQ(block_bytes(512, plain), 512);
  EXPECT_EQ(block_bytes(513, plain), 1024);
  EXPECT_EQ(block_bytes(1'048'577, plain), 1'049'088);
}

// 5000 lies between 4096 and 8192, in steps of 1024.
TEST(BlockSizes, DivisionsRoundUpToTheirNextStep) {
  AllocatorSettings settings;
  settings.roundup_divisions.fill(4);
  EXPECT_EQ(block_bytes(5000, settings), 5120);
  EXPECT_EQ(block_bytes(8192, settings), 8192);
  // Up to 512 * 4 a step would be no multiple of a block.
  EXPECT_EQ(block_bytes(1200, settings), 1536);
}

TEST(BlockSizes, SegmentsAre2Or20MiBOrMultiplesOf2MiB) {
  EXPECT_EQ(segment_bytes(1'048'576, plain), 2'097'152);
  EXPECT_EQ(segment_bytes(1'049'088, plain), 20'971'520);
  EXPECT_EQ(segment_bytes(10'485'248, plain), 20'971'520);
  EXPECT_EQ(segment_bytes(10'485'760, plain), 10'485'760);
  EXPECT_EQ(segment_bytes(10'486'272, plain), 12'582'912);
}

}  // namespace
}  // namespace shardscope
