#include "core/model/trainable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/model/huggingface.h"
#include "tests/backend/train/tiny_models.h"

namespace shardscope {
namespace {

using testing::HasSubstr;

Model llama() { return model_of_config(JsonValue::parse(tiny_llama, "config.json")); }

std::string error_of(const std::vector<std::string>& patterns) {
  Model model = llama();
  try {
    freeze_all_but(model, patterns);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Trainable, FreezesWhatNoPatternFindsAnywhereInTheName) {
  Model model = llama();
  freeze_all_but(model, {"q_proj", "norm\\.weight$"});
  for (const Parameter& parameter : model.parameters) {
    const bool expected = parameter.name.find("q_proj") != std::string::npos ||
                          parameter.name.ends_with("norm.weight");
    EXPECT_EQ(parameter.trainable, expected) << parameter.name;
  }
}

TEST(Trainable, TrainsAllWithoutPatterns) {
  Model model = llama();
  freeze_all_but(model, {});
  EXPECT_EQ(model.trainable_elements(), model.parameter_elements());
}

TEST(Trainable, NamesAPatternThatFindsNothing) {
  EXPECT_THAT(error_of({"q_proj", "lora_"}),
              testing::AllOf(HasSubstr("trainable[1]"), HasSubstr("lora_")));
}

TEST(Trainable, RefusesMalformedAndOversizedPatterns) {
  EXPECT_THAT(error_of({"("}), HasSubstr("not a regular expression"));
  EXPECT_THAT(error_of({std::string(257, 'a')}), HasSubstr("257 characters"));
  EXPECT_THAT(error_of({"((a{1000}){1000}){1000}"}), HasSubstr("counted repetition"));
  EXPECT_THAT(error_of({"(q)\\1"}), HasSubstr("not a regular expression"));
}

// A backtracking matcher would need 2^n steps for this one.
TEST(Trainable, IsNotHeldUpByAHostilePattern) {
  EXPECT_THAT(error_of({"(([a-z_.]+)+)+[0-9]+(([a-z_.]+)+)+!$"}), HasSubstr("matches none"));
}

}  // namespace
}  // namespace shardscope
