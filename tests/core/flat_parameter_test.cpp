#include "core/pytorch/plans/flat_parameter.h"

#include <gtest/gtest.h>

#include <vector>

namespace shardscope {
namespace {

FlatParameter flat_of(const std::vector<std::int64_t>& elements, std::int64_t alignment, int ranks,
                      bool sharded = true) {
  return lay_out({.parameter_elements = elements,
                  .alignment_elements = alignment,
                  .ranks = ranks,
                  .sharded = sharded});
}

TEST(FlatParameter, PadsTheLastShardWithZeros) {
  // 10 + 3 over 2 ranks: shards of 7, the second holds 6 and one zero.
  const FlatParameter flat = flat_of({10, 3}, 0, 2);
  EXPECT_EQ(flat.shard_elements, 7);
  EXPECT_EQ(flat.padded_elements(), 14);
  EXPECT_EQ(piece_of(flat, 0).padding_elements, 0);
  EXPECT_EQ(piece_of(flat, 1).padding_elements, 1);
}

TEST(FlatParameter, MayLeaveRanksWithZerosOnly) {
  // torch.chunk of 5 over 4: pieces of 2, 2, 1 and none.
  const FlatParameter flat = flat_of({5}, 0, 4);
  EXPECT_EQ(piece_of(flat, 2),
            (ShardPiece{
                .padding_elements = 1, .elements = 1, .range = ShardPiece::Range{0, 4, 0, 4, 0}}));
  EXPECT_EQ(piece_of(flat, 3), (ShardPiece{.padding_elements = 2, .elements = 0, .range = {}}));
}

TEST(FlatParameter, FillsBeforeAParameterAndAtTheEndUpToTheRanks) {
  // 10, then 2 to reach a multiple of 4, then 3: 15 elements, which 4 ranks make 16.
  const FlatParameter flat = flat_of({10, 3}, 4, 4);
  EXPECT_EQ(flat.fill, (std::vector<Fill>{{1, 2}, {2, 1}}));
  EXPECT_EQ(flat.begins, (std::vector<std::int64_t>{0, 12}));
  EXPECT_EQ(flat.unpadded_elements, 16);
  EXPECT_EQ(flat.shard_elements, 4);
}

TEST(FlatParameter, FillIsNoPartOfAShardsElements) {
  // Shard 2 of the above is elements 8 to 11: two of the first parameter, two of fill.
  const ShardPiece piece = piece_of(flat_of({10, 3}, 4, 4), 2);
  EXPECT_EQ(piece.padding_elements, 0);
  EXPECT_EQ(piece.elements, 2);
  EXPECT_EQ(piece.range, (ShardPiece::Range{0, 8, 0, 9, 0}));
}

TEST(FlatParameter, OffsetsCountFromTheShardsBegin) {
  // Elements 5 to 9 of 7 + 3: two of the first and all of the second.
  const ShardPiece piece = piece_of(flat_of({7, 3}, 0, 2), 1);
  EXPECT_EQ(piece.range, (ShardPiece::Range{0, 5, 1, 2, 0}));
  // With fill of one before the second, shard 1 is elements 6 to 11 and the second begins at 8.
  EXPECT_EQ(part_of(flat_of({7, 3}, 8, 2), 1, 1)->offset, 2);
}

TEST(FlatParameter, NotShardedStillHasTheFillOfItsGroup) {
  // NO_SHARD on 4 ranks: every rank keeps 10 + 2 + 3 and one more.
  const FlatParameter flat = flat_of({10, 3}, 4, 4, false);
  EXPECT_EQ(flat.shard_elements, 16);
  EXPECT_EQ(flat.shards, 1);
  EXPECT_EQ(piece_of(flat, 0).elements, 13);
}

TEST(FlatParameter, EmptyParametersLieOnlyBetweenOthers) {
  // 4, none, 4 over 2 ranks: the empty one stands on the border, so on no rank; within a shard of
  // 3, none, 5 it is found.
  EXPECT_FALSE(part_of(flat_of({4, 0, 4}, 0, 2), 1, 0));
  EXPECT_FALSE(part_of(flat_of({4, 0, 4}, 0, 2), 1, 1));
  EXPECT_EQ(part_of(flat_of({3, 0, 5}, 0, 2), 1, 0), (ParameterPart{0, 0, 3}));
}

}  // namespace
}  // namespace shardscope
