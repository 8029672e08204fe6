#include "core/base/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/core/complaint.h"

namespace shardscope {
namespace {

/// "{}" of ASCII with zero bytes before and behind each character.
std::string widened(std::size_t before, std::size_t behind) {
  std::string text;
  for (const char c : std::string_view("{}"))
    text += std::string(before, '\0') + c + std::string(behind, '\0');
  return text;
}

TEST(WideEncoding, IsToldByItsMark) {
  EXPECT_EQ(wide_encoding("\xff\xfe" + widened(0, 1)), "UTF-16");
  EXPECT_EQ(wide_encoding("\xfe\xff" + widened(1, 0)), "UTF-16");
  EXPECT_EQ(wide_encoding(std::string("\xff\xfe\0\0", 4) + widened(0, 3)), "UTF-32");
  EXPECT_EQ(wide_encoding(std::string("\0\0\xfe\xff", 4) + widened(3, 0)), "UTF-32");
}

TEST(WideEncoding, IsToldByTheZerosBesideAscii) {
  EXPECT_EQ(wide_encoding(widened(0, 1)), "UTF-16");
  EXPECT_EQ(wide_encoding(widened(1, 0)), "UTF-16");
  EXPECT_EQ(wide_encoding(widened(0, 3)), "UTF-32");
  EXPECT_EQ(wide_encoding(widened(3, 0)), "UTF-32");
}

TEST(WideEncoding, IsNotThatOfUtf8OrOfBytes) {
  EXPECT_EQ(wide_encoding(""), "");
  EXPECT_EQ(wide_encoding("{}"), "");
  EXPECT_EQ(wide_encoding("\xEF\xBB\xBF{}"), "");
  EXPECT_EQ(wide_encoding("\xff"), "");
  EXPECT_EQ(wide_encoding(std::string_view("\x80\0\0\0", 4)), "");
  EXPECT_EQ(wide_encoding(std::string_view("\0\0\0\0", 4)), "");
}

TEST(WideEncoding, IsRefusedWithTheWayOut) {
  EXPECT_EQ(complaint_of([] { refuse_wide_encoding(widened(3, 0), "a.json"); }),
            "a.json: the file is UTF-32; save it as UTF-8");
  EXPECT_EQ(complaint_of([] { refuse_wide_encoding("{}", "a.json"); }), "no complaint");
}

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
