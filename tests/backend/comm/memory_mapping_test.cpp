#include "backend/base/memory_mapping.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace shardscope {
namespace {

constexpr std::uintptr_t huge_page = 2 << 20;
// A huge page, a page and a bit: ends on neither.
constexpr Bytes uneven{huge_page + 4096 + 100};

bool all_are(const MemoryMapping& mapping, std::size_t begin, std::byte value) {
  return std::all_of(mapping.data() + begin, mapping.data() + mapping.size(),
                     [=](std::byte byte) { return byte == value; });
}

TEST(MemoryMapping, BeginsOnAHugePageWhereOneFits) {
  const MemoryMapping own = MemoryMapping::anonymous(uneven);
  const MemoryMapping shared(memory_file("test", uneven), uneven);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(own.data()) % huge_page, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(shared.data()) % huge_page, 0u);
}

TEST(MemoryMapping, SmallOnesAreThereToo) {
  const MemoryMapping own = MemoryMapping::anonymous({1});
  ASSERT_EQ(own.size(), 1u);
  own.data()[0] = std::byte{7};
}

TEST(MemoryMapping, IsZeroWhetherPagesAreHugeOrNot) {
  MemoryMapping own = MemoryMapping::anonymous(uneven);
  MemoryMapping shared(memory_file("test", uneven), uneven);
  own.prefer_huge_pages();
  shared.prefer_huge_pages();
  EXPECT_TRUE(all_are(own, 0, std::byte{}));
  EXPECT_TRUE(all_are(shared, 0, std::byte{}));
}

TEST(MemoryMapping, AnotherMappingOfTheFileSeesWhatIsWrittenAfterwards) {
  const FileDescriptor file = memory_file("test", uneven);
  MemoryMapping writer(file, uneven);
  const MemoryMapping reader(file, uneven);
  writer.prefer_huge_pages();
  std::fill_n(writer.data(), writer.size(), std::byte{5});
  EXPECT_TRUE(all_are(reader, 0, std::byte{5}));
}

// Two at a time: what the first does not need of its reserved addresses is given back, not kept or
// taken from the other.
TEST(MemoryMapping, NeighboursDoNotOverlap) {
  MemoryMapping first = MemoryMapping::anonymous(uneven);
  MemoryMapping second = MemoryMapping::anonymous(uneven);
  std::fill_n(first.data(), first.size(), std::byte{1});
  std::fill_n(second.data(), second.size(), std::byte{2});
  EXPECT_TRUE(all_are(first, 0, std::byte{1}));
}

}  // namespace
}  // namespace shardscope
