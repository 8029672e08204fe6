#include "core/format/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardscope {
namespace {

using testing::HasSubstr;

JsonValue json(std::string_view text) { return JsonValue::parse(text, "a.json"); }

template <class Action>
std::string complaint(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no complaint";
}

std::string refusal(std::string_view text) {
  return complaint([&] { json(text); });
}

TEST(JsonReader, ValuesOfEveryKind) {
  const JsonValue value = json(R"({"a": [1, -2.5e1, true, null, "x"], "b": {}})");
  const JsonValue a = value.at("a");
  ASSERT_EQ(a.size(), 5u);
  EXPECT_EQ(a[0].integer(), 1);
  EXPECT_EQ(a[1].number(), -25.0);
  EXPECT_TRUE(a[2].boolean());
  EXPECT_TRUE(a[3].is_null());
  EXPECT_EQ(a[4].string(), "x");
  EXPECT_EQ(value.at("b").size(), 0u);
}

TEST(JsonReader, IntegersAreExactToInt64AndDoublesBeyond) {
  EXPECT_EQ(json("9223372036854775807").integer(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(json("9007199254740993").integer(), 9007199254740993);  // 2^53 + 1 is no double
  EXPECT_FALSE(json("9223372036854775808").is_integer());
  EXPECT_EQ(json("9223372036854775808").number(), 9223372036854775808.0);
  EXPECT_FALSE(json("1.0").is_integer());
}

TEST(JsonReader, ComplaintsNameFileLineAndKey) {
  const JsonValue value = json("{\n  \"training\": {\n    \"steps\": \"ten\"}}");
  EXPECT_EQ(complaint([&] { value.at("training").at("steps").integer(); }),
            "a.json:3: training.steps: expected an integer, got \"ten\"");
  EXPECT_EQ(complaint([&] { value.at("training").at("lr"); }),
            "a.json:2: training: the key \"lr\" is missing");
  EXPECT_EQ(complaint([&] {
              value.at("training").only_keys({"step", "batch"});
            }),
            "a.json:3: training.steps: unknown key; did you mean \"step\"?");
  EXPECT_EQ(complaint([] { json("[[1], [2, 0]]")[1][1].integer(1); }),
            "a.json:1: [1][1]: expected an integer of at least 1, got 0");
}

TEST(JsonReader, MembersKeepTheFilesOrder) {
  const auto members = json(R"({"z": 1, "a": 2, "m": 3})").members();
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[0].first, "z");
  EXPECT_EQ(members[2].first, "m");
}

TEST(JsonReader, FindTreatsNullAsMissing) {
  const JsonValue value = json(R"({"a": null})");
  EXPECT_TRUE(value.has("a"));
  EXPECT_FALSE(value.find("a").has_value());
}

TEST(JsonReader, ARepeatedKeyIsRefusedOrTheLastWins) {
  EXPECT_EQ(refusal("{\"a\": 1,\n\"a\": 2}"), "a.json:2: the key \"a\" stands twice");
  const JsonValue value =
      JsonValue::parse(R"({"a":1,"b":2,"a":3,"a":4})", "a.json", DuplicateKeys::last_wins);
  EXPECT_EQ(value.dump(),
            R"({"a":4,"b":2})");  // as Python's dict: the first's place, the last's value
}

TEST(JsonReader, EscapesAndSurrogatePairs) {
  EXPECT_EQ(json(R"("\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00")").string(),
            "\"\\/\b\f\n\r\tA\u00e9\U0001F600");
  EXPECT_THAT(refusal(R"("\ud83d")"), HasSubstr("surrogate"));
  EXPECT_THAT(refusal(R"("\ude00\ud83d")"), HasSubstr("surrogate"));
  EXPECT_THAT(refusal(R"("\u12g4")"), HasSubstr("hexadecimal"));
  EXPECT_THAT(refusal(R"("\x41")"), HasSubstr("unknown escape"));
}

TEST(JsonReader, InvalidUtf8IsRefused) {
  EXPECT_THAT(refusal("\"\xff\""), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(refusal("\"\xc0\x80\""), HasSubstr("not valid UTF-8"));          // an overlong NUL
  EXPECT_THAT(refusal("\"\xed\xa0\x80\""), HasSubstr("not valid UTF-8"));      // a surrogate
  EXPECT_THAT(refusal("\"\xf4\x90\x80\x80\""), HasSubstr("not valid UTF-8"));  // U+110000
  EXPECT_THAT(refusal("\"\xe2\x82"), HasSubstr("not valid UTF-8"));
}

TEST(JsonReader, WhatIsNotJsonIsRefused) {
  for (const char* text :
       {"",        "{",   "[1,]", "{\"a\":1,}", "{a:1}",   "[1 2]",    "01",  "1.",
        ".5",      "+1",  "1e",   "nul",        "NaN",     "Infinity", "'x'", "\"x",
        "// c\n1", "1 2", "[",    "]",          "{\"a\"}", "\"\n\"",   "-",   "tru"})
    EXPECT_THAT(refusal(text), testing::StartsWith("a.json:1: ")) << text;
  EXPECT_THAT(refusal("1e999"), HasSubstr("out of the range"));
}

TEST(JsonReader, DeepNestingIsRefused) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(json(nested(256)).size(), 1u);
  EXPECT_THAT(refusal(nested(257)), HasSubstr("nested deeper than 256"));
  EXPECT_THAT(refusal(std::string(1000000, '[')), HasSubstr("nested deeper than 256"));
}

TEST(JsonReader, DumpIsCompactAsciiAsPythonWritesIt) {
  EXPECT_EQ(json("{\"a\": [1, 1.0, 1e-05, 1e22, \"\u00e9\U0001F600\"]}").dump(),
            R"({"a":[1,1.0,1e-05,1e+22,"\u00e9\ud83d\ude00"]})");
}

TEST(JsonReader, AnObjectOfManyKeysIsSearchedFast) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i)
    text += "\"k" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  const JsonValue value = json(text + "\"end\":0}");
  for (int i = 0; i < 200000; ++i) ASSERT_EQ(value.at("k" + std::to_string(i)).integer(), i);
}

TEST(JsonReader, AMissingFileIsNamed) {
  EXPECT_THAT(complaint([] { JsonValue::read_file("/nowhere/job.json"); }),
              HasSubstr("/nowhere/job.json: cannot be read: No such file or directory"));
}

}  // namespace
}  // namespace shardscope
