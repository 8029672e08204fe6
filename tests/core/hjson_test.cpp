#include "core/config/deepspeed/hjson.h"

#include <gtest/gtest.h>

#include "core/base/refusal.h"
#include "tests/core/complaint.h"

namespace shardscope {
namespace {

std::string raised_by(std::string_view text) {
  try {
    read_hjson(text, "ds.json");
  } catch (const Refusal& refusal) {
    return refusal.exception();
  }
  return "nothing";
}

TEST(Hjson, ReadsCommentsQuotelessTextAndMissingCommas) {
  const ConfigValue config = read_hjson(
      "# one\n{ // two\n  stage: 2 /* three */\n  type: AdamW\n  'q': [1, 2,],\n}", "ds.json");
  EXPECT_EQ(config.at("stage"), ConfigValue(2));
  EXPECT_TRUE(config.at("type").is("AdamW"));
  EXPECT_EQ(config.at("q"), ConfigValue::list({1, 2}));
}

TEST(Hjson, ReadsARootWithoutBraces) {
  EXPECT_EQ(read_hjson("a: 1\nb: {c: 2}\n", "ds.json").at("b").at("c"), ConfigValue(2));
}

// decoder.py scantfnns: a whole float below 1e10 becomes an int, 1e10 stays a float.
TEST(Hjson, MakesWholeFloatsBelowTenBillionInts) {
  const ConfigValue config = read_hjson("{\"a\": 5e8, \"b\": 1e10, \"c\": 1.5}", "ds.json");
  EXPECT_TRUE(config.at("a").is_integer());
  EXPECT_EQ(config.at("a").integer(), 500'000'000);
  EXPECT_TRUE(config.at("b").is_double());
  EXPECT_EQ(config.at("c").number(), 1.5);
}

// "True" is a word of Python's, not of Hjson's: up to the end of the line it is text.
TEST(Hjson, TakesTrueOfPythonAsText) {
  EXPECT_TRUE(read_hjson("{a: True\n}", "ds.json").at("a").is("True"));
  EXPECT_TRUE(read_hjson("{a: true}", "ds.json").at("a").boolean());
}

// hjson 3.1.0: the indent is where the quotes stand, and blanks beyond it are kept.
TEST(Hjson, ReadsMultilineTextWithoutItsIndent) {
  EXPECT_EQ(
      read_hjson("{\n  a:\n  '''\n    one\n      two\n    '''\n}", "ds.json").at("a").string(),
      "  one\n    two\n  ");
}

TEST(Hjson, KeepsLines) {
  const ConfigValue config = read_hjson("{\r\n\"a\": 1,\r\n\r\n\"b\": 2}", "ds.json");
  EXPECT_EQ(config.entries()[1].line, 4);
}

TEST(Hjson, RefusesAKeyTwiceWithBothLines) {
  const std::string complaint =
      complaint_of([] { read_hjson("{\n\"a\": 1,\n\"a\": 2}", "ds.json"); });
  EXPECT_NE(complaint.find("ds.json:3"), std::string::npos) << complaint;
  EXPECT_NE(complaint.find("line 2"), std::string::npos) << complaint;
  EXPECT_EQ(raised_by("{\"a\": 1, \"a\": 2}"), "ValueError");
}

TEST(Hjson, RaisesWhatPythonRaises) {
  EXPECT_EQ(raised_by("{\"a\": 1"), "HjsonDecodeError");
  EXPECT_EQ(raised_by("{\"a\": 1} /* open"), "IndexError");
  EXPECT_EQ(raised_by("{\"a\": 1e999}"), "OverflowError");
  EXPECT_EQ(raised_by("{\"a\": \"\xff\"}"), "UnicodeDecodeError");
  EXPECT_EQ(raised_by(std::string_view("{\0}\0", 4)), "UnicodeDecodeError");
}

TEST(Hjson, RefusesDeepNesting) { EXPECT_EQ(raised_by(std::string(300, '[')), "HjsonDecodeError"); }

}  // namespace
}  // namespace shardscope
