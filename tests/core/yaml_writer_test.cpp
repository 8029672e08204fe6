// YAML that yaml.safe_dump of PyYAML 6.0.3 wrote (sort_keys=False), and what reads back.
#include "core/config/yaml_writer.h"

#include <gtest/gtest.h>

#include "core/config/yaml_reader.h"

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
  EXPECT_EQ(yaml_text(value),
            "word: FSDP\n'no': 'no'\nnumber: '8'\nscientific: 1e8\nempty: ''\napostrophe: it's\n"
            "list_like: '[a]'\ncolon: 'a: b'\n");
}

TEST(YamlWriter, WritesNestedBlocksAsPyYamlDoes) {
  const ConfigValue value = ConfigValue::dict(
      {{"fsdp_config", ConfigValue::dict({{"fsdp_version", 2}, {"fsdp_offload_params", false}})},
       {"tpu_env", ConfigValue::list()},
       {"names", ConfigValue::list({"a", ConfigValue::dict({{"b", 1}, {"c", ConfigValue()}})})},
       {"clip", 1e-5}});
  EXPECT_EQ(yaml_text(value),
            "fsdp_config:\n  fsdp_version: 2\n  fsdp_offload_params: false\ntpu_env: []\nnames:\n"
            "- a\n- b: 1\n  c: null\nclip: 1.0e-05\n");
}

TEST(YamlWriter, ReadsBackToTheSame) {
  const ConfigValue value = ConfigValue::dict(
      {{"a", ConfigValue::list({ConfigValue::list({1, 2.5}), "- x", "#", "tab\there", true})},
       {"b", ConfigValue::dict({{"null", ConfigValue()}, {"~", "~"}})}});
  EXPECT_EQ(read_yaml(yaml_text(value), "written.yaml"), value);
}

}  // namespace
}  // namespace shardscope
