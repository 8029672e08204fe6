#include "traces/import/text_input.h"

#include <gtest/gtest.h>

#include "core/error.h"
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

}  // namespace
}  // namespace shardscope
