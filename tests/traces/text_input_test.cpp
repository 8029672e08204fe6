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
  std::vector<std::int64_t> told;
  const auto is_over = [&](std::int64_t bytes) {
    told.push_back(bytes);
    return told.size() == 2;
  };
  WatchedInput watched(std::make_unique<samples::StringInput>(text),
                       {.name = "a", .max_bytes = 1 << 30, .is_over = is_over});
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

TEST(WatchedInput, RefusesMoreTextThanMayBe) {
  const std::string text(3000, 'x');
  WatchedInput watched(
      std::make_unique<samples::StringInput>(text),
      {.name = "a.gz", .max_bytes = 2048, .is_over = [](std::int64_t) { return false; }});
  std::vector<char> out(2048);
  EXPECT_EQ(watched.read(out), 2048U);
  try {
    watched.read(out);
    FAIL() << "read on";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "a.gz: 2.93 KiB of it hold more than 2.00 KiB of text; unpack it, and give what is a "
        "trace");
    EXPECT_EQ(error.code(), ExitCode::bad_input);
  }
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
