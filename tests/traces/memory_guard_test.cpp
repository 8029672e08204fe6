#include "traces/import/memory_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/sanitizers/sanitized.h"

namespace shardscope {
namespace {

using testing::HasSubstr;

TEST(MemoryGuard, EndsALoadOnceATenthOfWhatWasFreeIsLeft) {
  Bytes free{1'000'000'000};
  MemoryGuard guard("big.json.gz", [&] { return free; });
  guard.check();
  free = Bytes{100'000'000};
  guard.check();
  free = Bytes{99'000'000};
  try {
    guard.check();
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::outside);
    EXPECT_EQ(std::string(error.what()),
              "big.json.gz: it has taken " + rounded_text(Bytes{901'000'000}) +
                  " of memory so far, and " + rounded_text(Bytes{99'000'000}) + " of " +
                  rounded_text(Bytes{1'000'000'000}) +
                  " is free; profile fewer steps, or open it on a machine with more");
  }
}

TEST(MemoryGuard, SaysOfAFailedAllocationWhatWasTakenBeforeItWasGivenBack) {
  Bytes free{1'000'000'000};
  MemoryGuard guard("big.json.gz", [&] { return free; });
  free = Bytes{400'000'000};
  guard.check();
  free = Bytes{1'000'000'000};
  EXPECT_THAT(guard.out_of_memory().what(), HasSubstr("taken " + rounded_text(Bytes{600'000'000})));
}

TEST(MemoryGuard, CountsTheLimitOfThisProcess) {
  if (test::is_sanitized) GTEST_SKIP() << "a sanitizer takes addresses of its own";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  free_memory();  // leaves room in the heap for what the second call takes
  rlimit limited = before;
  limited.rlim_cur = 1 << 20;  // less than the program has already
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limited), 0);
  const Bytes free = free_memory();
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(free, Bytes{0});
}

}  // namespace
}  // namespace shardscope
