// YAML that yaml.safe_dump of PyYAML 6.0.3 wrote and what reads back.
#include "core/config/yaml/yaml_writer.h"

#include <gtest/gtest.h>

#include "core/config/yaml/yaml_reader.h"

namespace shardscope {
namespace {

TEST(YamlWriter, QuotesWhatWouldReadAsSomethingElse) {
  const ConfigValue value = ConfigValue::dict({{"word", "FSDP"},
                                               {"no", "no"},
                                               {"number", "8"},
                                               {"scientific", "1e8"},
                                               {"empty", ""},
                                               {"apostrophe", "it's"},
                                               {"list_like", "[a]"},
                                               {"colon", "a: b"}});
  EXPECT_EQ(
      yaml_text(value),
      "apostrophe: it's\ncolon: 'a: b'\nempty: ''\nlist_like: '[a]'\n'no': 'no'\nnumber: '8'\n"
      "scientific: 1e8\nword: FSDP\n");
}

TEST(YamlWriter, WritesNestedBlocksAsPyYamlDoes) {
  const ConfigValue value = ConfigValue::dict(
      {{"fsdp_config", ConfigValue::dict({{"fsdp_version", 2}, {"fsdp_offload_params", false}})},
       {"tpu_env", ConfigValue::list()},
       {"names", ConfigValue::list({"a", ConfigValue::dict({{"b", 1}, {"c", ConfigValue()}})})},
       {"clip", 1e-5}});
  EXPECT_EQ(yaml_text(value),
            "clip: 1.0e-05\nfsdp_config:\n  fsdp_offload_params: false\n  fsdp_version: 2\nnames:\n"
            "- a\n- b: 1\n  c: null\ntpu_env: []\n");
}

TEST(YamlWriter, ReadsBackToTheSame) {
  const ConfigValue value = ConfigValue::dict(
      {{"a", ConfigValue::list({ConfigValue::list({1, 2.5}), "- x", "#", "tab\there", true})},
       {"b", ConfigValue::dict({{"null", ConfigValue()}, {"~", "~"}})}});
  EXPECT_EQ(read_yaml(yaml_text(value), "written.yaml"), value);
}

TEST(YamlWriter, WritesAsSafeDumpDoes) {
  EXPECT_EQ(yaml_text(read_yaml("b: 'no'\na: [1, {x: ~}, []]\nc: 'a: b'\nd: 1e-05", "x")),
            "a:\n- 1\n- x: null\n- []\nb: 'no'\nc: 'a: b'\nd: 1e-05\n");
  EXPECT_EQ(yaml_text(ConfigValue::dict({{"a", 1e-5}, {"b", "two\nlines"}, {"c", "\xC3\xA9"}})),
            "a: 1.0e-05\nb: 'two\n\n  lines'\nc: \"\\xE9\"\n");
}

TEST(YamlWriter, WritesAnAnchorForWhatAnAliasRepeats) {
  EXPECT_EQ(yaml_text(read_yaml("b: &x {k: 1}\na: *x\n", "x")), "a: &id001\n  k: 1\nb: *id001\n");
}

TEST(YamlWriter, BreaksLongTextsAtBlanksBehindColumn80) {
  std::string words = "word";
  for (int i = 0; i < 19; ++i) words += " word";
  EXPECT_EQ(yaml_text(ConfigValue::dict({{"k", words}})),
            "k: word word word word word word word word word word word word word word word word\n"
            "  word word word word\n");
}

}  // namespace
}  // namespace shardscope
