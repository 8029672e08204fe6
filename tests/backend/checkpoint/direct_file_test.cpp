#include "backend/checkpoint/direct_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>

#include "core/base/error.h"
#include "tests/backend/train/temporary_folder.h"

namespace shardscope {
namespace {

namespace fs = std::filesystem;

/// Of each byte's place, so that no block is like another.
std::string pattern(std::int64_t bytes) {
  std::string text;
  for (std::int64_t i = 0; i < bytes; ++i)
    text += static_cast<char>((i * 131 + (i >> 12) * 7) & 0xff);
  return text;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span<const char>(text));
}

std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Memory file systems refuse O_DIRECT on older kernels; others write blocks of 4 MiB by it.
class DirectFiles : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void expect_written(const fs::path& file) {
    const std::string text = pattern(GetParam()), begin = "begins anew";
    DirectFile direct(file);
    // In parts that end nowhere near a block.
    constexpr std::size_t part = 1'000'003;
    for (std::size_t at = 0; at < text.size(); at += part)
      direct.write(bytes_of(text).subspan(at, std::min(part, text.size() - at)));
    EXPECT_FALSE(fs::exists(file));
    const std::string written_over = text.size() < begin.size() ? "" : begin;
    direct.commit(GetParam(), bytes_of(written_over));
    EXPECT_EQ(content_of(file), written_over + text.substr(written_over.size()));
  }
  TemporaryFolder place_;
};

TEST_P(DirectFiles, HaveWhatWasWritten) { expect_written(place_.path() / "file"); }

TEST_P(DirectFiles, HaveItInMemoryFileSystemsToo) {
  const fs::path folder = fs::path("/dev/shm") / place_.path().filename();
  std::error_code error;
  if (!fs::create_directory(folder, error)) GTEST_SKIP() << "/dev/shm cannot be written";
  expect_written(folder / "file");
  fs::remove_all(folder);
}

constexpr std::int64_t block = std::int64_t{4} << 20;
INSTANTIATE_TEST_SUITE_P(Bytes, DirectFiles,
                         ::testing::Values(0, 1, 4095, 4097, block - 1, block, block + 1, 2 * block,
                                           2 * block + 12345));

TEST(DirectFile, WithoutCommitNothingIsLeft) {
  const TemporaryFolder place;
  {
    DirectFile file(place.path() / "file");
    file.write(bytes_of(pattern(block + 5)));
  }
  EXPECT_TRUE(fs::is_empty(place.path()));
}

TEST(DirectFile, OtherBytesThanPromisedAreNoFile) {
  const TemporaryFolder place;
  {
    DirectFile file(place.path() / "file");
    file.write(bytes_of(pattern(10)));
    EXPECT_THROW(file.commit(11), std::logic_error);
  }
  EXPECT_TRUE(fs::is_empty(place.path()));
}

TEST(DirectFile, AFolderThatIsNotThereIsAnError) {
  const TemporaryFolder place;
  EXPECT_THROW(DirectFile(place.path() / "nowhere" / "file"), Error);
}

}  // namespace
}  // namespace shardscope
