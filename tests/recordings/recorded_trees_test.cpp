// Module trees of Hugging Face models against those that the library built.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/model/huggingface.h"
#include "core/pytorch/plans/module_tree.h"
#include "tests/recordings/recorded_file.h"
#include "tests/recordings/recorded_models.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

ModuleTree our_tree(const Json& spec) {
  const JsonValue config = JsonValue::parse(spec.at("config").dump(), "config");
  return tree_of(model_of_config(config, {.class_name = spec.at("hf").get<std::string>()}));
}

void expect_equal(const ModuleTree& ours, const ModuleTree& recorded) {
  ASSERT_EQ(ours.parameters.size(), recorded.parameters.size());
  for (std::size_t i = 0; i < ours.parameters.size(); ++i)
    EXPECT_EQ(ours.parameters[i], recorded.parameters[i]) << recorded.parameters[i].name;
  ASSERT_EQ(ours.modules.size(), recorded.modules.size());
  for (std::size_t i = 0; i < ours.modules.size(); ++i) {
    EXPECT_EQ(ours.modules[i].bases, recorded.modules[i].bases) << recorded.modules[i].name;
    EXPECT_EQ(ours.modules[i], recorded.modules[i]) << recorded.modules[i].name;
  }
}

void check_folder(const std::filesystem::path& folder) {
  const Json models = recorded_json(folder, "models");
  for (const auto& [name, model] : models.items()) {
    if (!model.at("spec").contains("hf")) continue;
    SCOPED_TRACE(name);
    expect_equal(our_tree(model.at("spec")), recorded_tree(model));
  }
}

TEST(RecordedTrees, AreOursWithAliasesAndBaseClasses) {
  check_folder(std::filesystem::path(SOURCE_ROOT) / "tests/data/module_trees");
}

TEST(RecordedTrees, OfTheWholeRecordingAreOurs) {
  const auto folder = std::filesystem::path(SOURCE_ROOT) / "../shared/data/pytorch/flat_parameters";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no ../shared beside the project";
  check_folder(folder);
}

}  // namespace
}  // namespace shardscope::recordings
