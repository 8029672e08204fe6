// Who holds what of the host's memory.
#include "backend/profile/process_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/base/memory_mapping.h"

namespace shardscope {
namespace {

using ::testing::ElementsAre;

/// proc(5): a head line for each mapping, then its figures in kB.
constexpr std::string_view smaps =
    R"(55d0a0000000-55d0a0010000 r-xp 00000000 fe:00 248030                     /opt/bin/train me
Size:                 64 kB
Rss:                  64 kB
Pss:                  32 kB
Pss_Dirty:             0 kB
55d0a1000000-55d0a1100000 rw-p 00000000 00:00 0                          [heap]
Pss:                 700 kB
7f0000000000-7f0000400000 rw-s 00000000 00:01 1024                       /memfd:shardscope arena (deleted)
Rss:                4096 kB
Pss:                2048 kB
7f0001000000-7f0001400000 rw-s 00000000 00:01 1025                       /memfd:shardscope arena (deleted)
Pss:                1000 kB
7f0002000000-7f0002100000 rw-s 00000000 00:01 1026                       /memfd:shardscope control (deleted)
Pss:                  12 kB
7f0003000000-7f0003100000 rw-p 00000000 00:00 0
Pss:                 300 kB
7f0004000000-7f0004100000 rw-s 00000000 00:19 7                          /dev/shm/vader_segment.host.1 (deleted)
Pss:                  24 kB
7f0005000000-7f0005100000 r-xp 00000000 fe:00 9                          /usr/lib/libdnnl.so.2
Pss:                 400 kB
7f0006000000-7f0006100000 rw-p 00000000 00:00 0                          [anon:libc malloc]
Pss:                   5 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
Pss:                  20 kB
7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0                          [vdso]
Pss:                   0 kB
)";

MemoryHolder held(std::string owner, std::int64_t kibibytes) {
  return {.owner = std::move(owner), .held = 1_KiB * kibibytes};
}

TEST(ProcessMemory, SumsMappingsByOwner) {
  const auto* arena = reinterpret_cast<const std::byte*>(0x7f0000000000);
  EXPECT_THAT(
      holders_of(parse_mappings(smaps), {arena, 0x400000}),
      ElementsAre(held("arena", 2048),            // by its address
                  held("heap and stacks", 1025),  // 700 + 300 + 5 + 20
                  held("arenas of peers, read in place", 1000),
                  held("code and data of libraries", 400), held("program and other files", 32),
                  held("shared memory of libraries", 24),
                  held("communicator: control memory", 12)));
}

TEST(ProcessMemory, KnowsAPrivateArenaByItsAddress) {
  const auto* arena = reinterpret_cast<const std::byte*>(0x7f0003000000);
  const auto holders = holders_of(parse_mappings(smaps), {arena, 0x1000});
  EXPECT_THAT(holders, ::testing::Contains(held("arena", 300)));
}

TEST(ProcessMemory, ReadsNamesWithBlanks) {
  const auto mappings = parse_mappings(smaps);
  ASSERT_EQ(mappings.size(), 11U);
  EXPECT_EQ(mappings[0].name, "/opt/bin/train me");
  EXPECT_EQ(mappings[0].begin, 0x55d0a0000000U);
  EXPECT_EQ(mappings[0].end, 0x55d0a0010000U);
  EXPECT_EQ(mappings[0].pss, 32_KiB);
}

TEST(ProcessMemory, PassesOverWhatItDoesNotUnderstand) {
  EXPECT_THAT(parse_mappings("Pss: 4 kB\nzz-zz r 0 0 0 x\nPss:\nPss: 99999999999999999999 kB\n1-2"),
              ElementsAre(MappedRange{1, 2, "", {}}));
  EXPECT_THAT(parse_mappings(""), ElementsAre());
}

TEST(ProcessMemory, FindsWhatThisProcessTouched) {
  const MemoryMapping arena = MemoryMapping::anonymous(16_MiB);
  const auto held_in_arena = [&] {
    for (const MemoryHolder& holder : holders_of(own_mappings(), {arena.data(), arena.size()}))
      if (holder.owner == "arena") return *holder.held;
    return Bytes{};
  };
  // The kernel may have joined it with its neighbour.
  const Bytes before = held_in_arena();
  for (std::size_t at = 0; at < 4U << 20; at += 4096) arena.data()[at] = std::byte{1};
  EXPECT_GE(held_in_arena() - before, 4_MiB);
  EXPECT_LE(held_in_arena() - before, 16_MiB);  // huge pages
}

TEST(ResidentSize, IsCountedInPages) {
  // size resident shared text lib data dt
  EXPECT_EQ(parse_resident_size("9000 300 120 1 0 50 0\n", 4_KiB),
            (ResidentSize{.all = 1200_KiB, .shared = 480_KiB}));
  EXPECT_EQ(parse_resident_size("9000", 4_KiB), std::nullopt);
}

TEST(ResidentSize, GrowsWithWhatIsTouched) {
  const ResidentSizeReader reader;
  const MemoryMapping pages = MemoryMapping::anonymous(32_MiB);
  const auto before = reader.read();
  for (std::size_t at = 0; at < pages.size(); at += 4096) pages.data()[at] = std::byte{1};
  const auto after = reader.read();
  ASSERT_TRUE(before && after);
  EXPECT_GT(after->all - before->all, 31_MiB);
  EXPECT_LT(after->all - before->all, 40_MiB);
}

}  // namespace
}  // namespace shardscope
