#include "core/base/utf8.h"

#include <gtest/gtest.h>

namespace shardscope {
namespace {

TEST(Printable, ShowsControlCharactersByTheirNumbers) {
  EXPECT_EQ(printable("a\x1b[31mRED\x07\x7f\n"), "a\\x1b[31mRED\\x07\\x7f\\x0a");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xC2\x9B"), "\\x9b");  // U+009B, which a terminal takes for ESC [
}

TEST(Printable, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("a\x9b\xFF"), "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Printable, LeavesTextAndWhatIsKept) {
  EXPECT_EQ(printable("gr\u00fcn \u2014 ok"), "gr\u00fcn \u2014 ok");
  EXPECT_EQ(printable("a\n\tb\r", "\n\t"), "a\n\tb\\x0d");
}

}  // namespace
}  // namespace shardscope
