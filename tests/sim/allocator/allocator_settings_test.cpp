#include "sim/allocator/allocator_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace shardscope {
namespace {

using ::testing::HasSubstr;

AllocatorSettings parsed(std::string_view text) {
  return parse_allocator_settings(text, "PYTORCH_ALLOC_CONF");
}

std::string refusal_of(std::string_view text) {
  try {
    parsed(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "taken";
}

TEST(AllocatorSettings, NothingGivenIsThePlainAllocator) {
  EXPECT_EQ(parsed(""), AllocatorSettings{});
}

TEST(AllocatorSettings, ReadsOptionsWithBlanksBetween) {
  const AllocatorSettings s = parsed(" max_split_size_mb: 64 , expandable_segments:True");
  EXPECT_EQ(s.max_split, 64_MiB);
  EXPECT_TRUE(s.expandable_segments);
}

// The rounding that is allowed follows the segment's size, wherever that stands.
TEST(AllocatorSettings, LargeSegmentsMoveTheRoundingLimit) {
  const AllocatorSettings s = parsed("expandable_segments:False,large_segment_size_mb:40");
  EXPECT_EQ(s.large_segment, 40_MiB);
  EXPECT_EQ(s.max_non_split_rounding, 40_MiB);
  EXPECT_THAT(refusal_of("max_split_size_mb:32,large_segment_size_mb:40"),
              HasSubstr("max_split_size_mb cannot be \"32\""));
}

// [4:2,64:8,>:1]: up to 4 MiB 2, 64 MiB 8, above 1; what lies between was not set.
TEST(AllocatorSettings, RoundupListFillsBeforeTheFirstAndAfterTheLast) {
  const AllocatorSettings s = parsed("roundup_power2_divisions:[4:2,64:8,>:1]");
  const std::array<int, roundup_interval_count> expected{2, 2, 2, 0, 0, 0, 8, 1,
                                                         1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(s.roundup_divisions, expected);
}

TEST(AllocatorSettings, OneRoundupCountsForAllSizes) {
  EXPECT_EQ(parsed("roundup_power2_divisions:4").roundup_divisions[15], 4);
}

TEST(AllocatorSettings, NamesWhatItCannotRead) {
  EXPECT_THAT(refusal_of("max_split_size:64"), HasSubstr("did you mean max_split_size_mb?"));
  EXPECT_THAT(refusal_of("expandable_segments:true"),
              HasSubstr("expandable_segments cannot be \"true\"; write True or False"));
  EXPECT_THAT(refusal_of("max_split_size_mb:19"), HasSubstr("from 20 to"));
  EXPECT_THAT(refusal_of("garbage_collection_threshold:1.0"), HasSubstr("between 0 and 1"));
  EXPECT_THAT(refusal_of("roundup_power2_divisions:3"), HasSubstr("power of two"));
  EXPECT_THAT(refusal_of("max_split_size_mb"), HasSubstr("expected ':'"));
  EXPECT_THAT(refusal_of("roundup_power2_divisions:[4:2"), HasSubstr("ends too early"));
}

// Both change what fits: what is not modelled is not ignored. The second is PyTorch's default.
TEST(AllocatorSettings, RefusesWhatWouldFitOtherwise) {
  EXPECT_THAT(refusal_of("expandable_segments_reserve:0.5"), HasSubstr("not modelled"));
  EXPECT_THAT(refusal_of("throw_on_cudamalloc_oom:True"), HasSubstr("not modelled"));
  EXPECT_EQ(parse_allocator_settings("throw_on_cudamalloc_oom:False", "conf"), AllocatorSettings{});
}

}  // namespace
}  // namespace shardscope
