#include "core/config/values/config_value.h"

#include <gtest/gtest.h>

#include "core/base/refusal.h"
#include "core/config/values/config_json.h"

namespace shardscope {
namespace {

// Every expected text below was printed by Python 3.11: str(value), repr(value), json.dumps(value).

TEST(ConfigValue, WritesNumbersAsPythonDoes) {
  EXPECT_EQ(ConfigValue(1e-5).str(), "1e-05");
  EXPECT_EQ(ConfigValue(1e8).str(), "100000000.0");
  EXPECT_EQ(ConfigValue(1e16).str(), "1e+16");
  EXPECT_EQ(ConfigValue(true).str(), "True");
  EXPECT_EQ(ConfigValue().str(), "None");
}

TEST(ConfigValue, WritesListsAndDictsWithTheReprOfWhatTheyHold) {
  EXPECT_EQ(ConfigValue::list({"A", 1, ConfigValue()}).str(), "['A', 1, None]");
  EXPECT_EQ(ConfigValue::dict({{"a", "it's"}, {"b", 0.5}}).str(), "{'a': \"it's\", 'b': 0.5}");
}

TEST(ConfigValue, QuotesTextAsPythonDoes) {
  EXPECT_EQ(ConfigValue("a\n\x01\xC2\xA0\xC3\xA9").repr(), "'a\\n\\x01\\xa0\xC3\xA9'");
  EXPECT_EQ(ConfigValue("'\"").repr(), "'\\'\"'");
}

TEST(ConfigValue, ComparesAsPythonDoes) {
  EXPECT_EQ(ConfigValue(1), ConfigValue(1.0));
  EXPECT_EQ(ConfigValue(1), ConfigValue(true));
  EXPECT_FALSE(ConfigValue(1) == ConfigValue("1"));
  EXPECT_EQ(ConfigValue::dict({{"a", 1}, {"b", 2}}), ConfigValue::dict({{"b", 2}, {"a", 1}}));
}

TEST(ConfigValue, SetsInTheOldPlaceOrAtTheEnd) {
  ConfigValue value = ConfigValue::dict({{"a", 1}, {"b", 2}});
  value.set("a", 3);
  value.set("c", 4);
  EXPECT_EQ(value.repr(), "{'a': 3, 'b': 2, 'c': 4}");
}

TEST(ReadJson, KeepsTheLineOfEveryValue) {
  const ConfigValue value = read_json("{\n \"a\": [1,\n 2]}", "x.json");
  EXPECT_EQ(value.at("a").elements()[1].line(), 3);
}

TEST(ReadJson, LetsTheLastOfTwoKeysWinInThePlaceOfTheFirst) {
  const ConfigValue value = read_json("{\"a\": 1,\n\"b\": 2,\n\"a\": 3}", "x.json");
  EXPECT_EQ(value.repr(), "{'a': 3, 'b': 2}");
  ASSERT_EQ(value.duplicates().size(), 1u);
  EXPECT_EQ(value.duplicates()[0].first_line, 1);
  EXPECT_EQ(value.duplicates()[0].line, 3);
}

TEST(ReadJson, RefusesASecondKeyWhereDeepSpeedDoes) {
  try {
    read_json("{\"a\": {\"b\": 1,\n\"b\": 2}}", "x.json", DuplicateKeys::refuse);
    FAIL();
  } catch (const Refusal& error) {
    EXPECT_EQ(error.exception(), "ValueError");
    EXPECT_EQ(error.parts().where, "x.json:2: a.b");
  }
}

TEST(ReadJson, TakesWhatPythonsModuleTakes) {
  EXPECT_EQ(read_json("[NaN, -Infinity, 1e999, 36893488147419103232, -0, 1.5E3]", "x").repr(),
            "[nan, -inf, inf, 36893488147419103232, 0, 1500.0]");
}

TEST(ReadJson, RefusesWhatPythonsModuleRefuses) {
  for (const char* text : {"", "{'a': 1}", "[1,]", "{\"a\": 01}", "[\"\t\"]", "{} x", "// c\n{}",
                           "[1.]", "\"\\x\"", "nul", "{\"a\" 1}", "\xEF\xBB\xBF{}"})
    EXPECT_THROW(read_json(text, "x"), Refusal) << text;
}

TEST(ReadJson, RefusesDeepNesting) {
  EXPECT_THROW(read_json(std::string(100000, '['), "x"), Refusal);
}

TEST(JsonText, WritesAsPythonsModuleDoes) {
  const ConfigValue value = ConfigValue::dict(
      {{"a", ConfigValue::list({1, 2.0, ConfigValue(), true})}, {"\xC3\xA9", ConfigValue::dict()}});
  EXPECT_EQ(json_text(value), "{\"a\": [1, 2.0, null, true], \"\\u00e9\": {}}");
  EXPECT_EQ(json_text(value, 2),
            "{\n  \"a\": [\n    1,\n    2.0,\n    null,\n    true\n  ],\n  \"\\u00e9\": {}\n}");
}

}  // namespace
}  // namespace shardscope
