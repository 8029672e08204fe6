#include "traces/import/text_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"

namespace shardscope {
namespace {

TEST(TextStore, GivesBackWhatItWasGiven) {
  TextStore store = TextStore::temporary();
  store.append("0123");
  store.append("4567");
  EXPECT_EQ(store.read(2, 4), "2345");
}

TEST(TextStore, TakesNoMoreOfTheDiskThanItMay) {
  TextStore store = TextStore::temporary(Bytes{6});
  store.append("0123");
  try {
    store.append("456");
    FAIL() << "took it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::outside);
    EXPECT_THAT(error.what(), testing::HasSubstr("TMPDIR"));
  }
}

}  // namespace
}  // namespace shardscope
