#include "traces/import/text_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/error.h"
#include "tests/traces/string_input.h"

namespace shardscope {
namespace {

TEST(WatchedInput, StopsTheReadingWhenAsked) {
  const std::string text(std::size_t{9} << 20, 'x');
  samples::StringInput input(text);
  std::vector<std::int64_t> told;
  WatchedInput watched(input, [&](std::int64_t bytes) {
    told.push_back(bytes);
    return told.size() == 2;
  });
  std::vector<char> out(std::size_t{1} << 20);
  try {
    while (watched.read(out) > 0) {
    }
    FAIL() << "read to the end";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::interrupted);
  }
  EXPECT_EQ(told, (std::vector<std::int64_t>{4 << 20, 8 << 20}));
}

TEST(TextInput, RefusesAPipeThatNobodyWritesTo) {
  const std::string path =
      ::testing::TempDir() + std::to_string(::getpid()) + ".text_input_test.pipe";
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  try {
    open_bytes(path);
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("a pipe"));
    EXPECT_EQ(error.code(), ExitCode::bad_input);
  }
  std::filesystem::remove(path);
}

TEST(TextInput, RefusesADevice) { EXPECT_THROW(open_bytes("/dev/zero"), Error); }

}  // namespace
}  // namespace shardscope
