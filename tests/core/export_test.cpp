// Exports recorded with examples/pytorch/export_model.py under torch 2.15 and transformers 5.23.
#include "core/model/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/model/read_model.h"
#include "core/pytorch/plans/module_tree.h"
#include "tests/core/complaint.h"

namespace shardscope {
namespace {

using testing::HasSubstr;

const std::filesystem::path exports =
    std::filesystem::path(SOURCE_ROOT) / "tests/data/model_exports";

/// Initialization is nothing that an export says.
std::vector<Parameter> without_initialization(std::vector<Parameter> parameters) {
  for (Parameter& parameter : parameters) parameter.initialization = {};
  return parameters;
}

class ExportOf : public testing::TestWithParam<std::string> {};

TEST_P(ExportOf, AHuggingFaceModelIsTheModelOfItsConfig) {
  const Model exported = read_model(exports / (GetParam() + ".json"));
  const Model of_config = read_model(exports / (GetParam() + "_config.json"));
  EXPECT_EQ(exported.class_name, of_config.class_name);
  EXPECT_EQ(exported.family, of_config.family);
  EXPECT_EQ(exported.dtype, of_config.dtype);
  EXPECT_EQ(exported.base_model_prefix, of_config.base_model_prefix);
  EXPECT_EQ(exported.no_split_classes, of_config.no_split_classes);
  EXPECT_EQ(without_initialization(exported.parameters),
            without_initialization(of_config.parameters));
  EXPECT_EQ(exported.tied, of_config.tied);
  EXPECT_EQ(exported.buffers, of_config.buffers);
  EXPECT_EQ(exported.state_dict_keys(), of_config.state_dict_keys());
  EXPECT_EQ(tree_of(exported), tree_of(of_config));
}

INSTANTIATE_TEST_SUITE_P(Recorded, ExportOf, testing::Values("gpt2", "t5"));

// A Sequential registered as a and as b, an embedding whose weight a head has as its first
// parameter, before one of its own that is frozen.
TEST(Export, KeepsSharedModulesAndTheOrderOfRegistration) {
  const ModuleTree tree = tree_of(read_model(exports / "shared_modules.json"));
  std::vector<std::string> names;
  for (const TreeParameter& parameter : tree.parameters) names.push_back(parameter.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"emb.weight", "a.0.weight", "a.0.bias", "b.0.weight",
                                      "b.0.bias", "head.alias", "head.own", "head.lin.weight"}));
  EXPECT_EQ(tree.parameters[5].same_as, 0);
  EXPECT_FALSE(tree.parameters[6].trainable);
  EXPECT_EQ(tree.modules[5].name, "b");
  EXPECT_EQ(tree.modules[5].same_as, 2);
}

// Of 2 x 5 tokens of width 3 in float32, 120 bytes each: embedding keeps its input only. The first
// Linear keeps the embedded tokens, its ReLU the result, which is the second pass's input (nothing
// new), that pass's ReLU again, and the head's Linear its input. Weights are not counted.
TEST(Export, CountsWhatBackwardKeepsByModule) {
  const Model model = read_model(exports / "shared_modules.json");
  ASSERT_TRUE(model.trace);
  EXPECT_EQ(model.trace->batch, 2);
  EXPECT_EQ(model.trace->sequence, 5);
  EXPECT_EQ(model.trace->saved(), Bytes{4 * 120});
  EXPECT_EQ(model.trace->operators(), 20);
  EXPECT_EQ(model.trace->execution_order,
            (std::vector<std::string>{"", "emb", "a", "a.0", "a.1", "a", "a.0", "a.1", "head",
                                      "head.lin"}));
}

std::string complaint(const std::string& modules, const std::string& trace = "null") {
  const std::string text =
      R"({"schema": "shardscope.model_export/1", "made_by": {}, "class": "Net", "model_type": null,
 "base_model_prefix": "", "no_split_modules": [], "trace_error": null, "modules": [
 {"name": "", "class": "Net", "bases": [], "parameters": [], "buffers": []})" +
      modules + R"(], "trace": )" + trace + "}";
  return complaint_of([&] { model_of_json(text, "model.json"); });
}

std::string module(const std::string& name, const std::string& parameters,
                   const std::string& more = "") {
  return ", {\"name\": \"" + name + "\", \"class\": \"A\", \"bases\": [], \"parameters\": [" +
         parameters + "], \"buffers\": []" + more + "}";
}

std::string weight(const std::string& shape, const std::string& more = "") {
  return R"({"name": "w", "shape": )" + shape + R"(, "dtype": "float32", "trainable": true)" +
         more + "}";
}

TEST(Export, RefusesWhatNoModelCanBe) {
  EXPECT_EQ(complaint(module("a", weight("[2, 3]"))), "no complaint");
  EXPECT_THAT(complaint(module("a.b", "")), HasSubstr("does not stand below its parent"));
  EXPECT_THAT(complaint(module("a", "") + module("a", "")), HasSubstr("stands there twice"));
  EXPECT_THAT(complaint(module("a", "") + module("b", "") + module("a.c", "")),
              HasSubstr("does not stand below its parent"));
  EXPECT_THAT(complaint(module("a..b", "")), HasSubstr("empty part"));
  EXPECT_THAT(complaint(module("a", "", R"(, "same_as": "z")")), HasSubstr("no earlier module"));
  EXPECT_THAT(complaint(module("a", weight("[4294967296, 4294967296]"))), HasSubstr("2^53"));
  EXPECT_THAT(complaint(module("a", weight("[-1]"))), HasSubstr("shape[0]"));
  EXPECT_THAT(
      complaint(module("a", weight("[2]")) + module("b", weight("[3]", R"(, "same_as": "a.w")"))),
      HasSubstr("not the first of the same object"));
  EXPECT_THAT(complaint(module("a", R"({"name": "w", "shape": [], "dtype": "complex64"})")),
              HasSubstr("complex64"));
}

TEST(Export, RefusesPlacesOutsideOfItsTables) {
  const auto traced = [](const std::string& saved) {
    return complaint("", R"({"batch": 1, "sequence": 1, "tensors_are": "fake", "inputs": [],
 "execution_order": [""], "storages": [{"bytes": 4, "kind": "other"}],
 "tensors": [{"dtype": "float32", "shape": [1], "storage": 0}],
 "operators": [{"operator": "x", "module": null, "inputs": [], "outputs": [0], "saved": [)" +
                             saved + "]}]}");
  };
  EXPECT_EQ(traced("0"), "no complaint");
  EXPECT_THAT(traced("1"), HasSubstr("expected an integer from 0 to 0"));
  EXPECT_THAT(traced("-1"), HasSubstr("saved[0]"));
}

TEST(Export, RefusesAnotherSchemaAndDuplicateKeys) {
  EXPECT_THAT(complaint_of([] { model_of_json(R"({"schema": "x/1"})", "m"); }),
              HasSubstr("unknown schema \"x/1\""));
  EXPECT_THAT(complaint_of([] { model_of_json(R"({"schema": "x", "schema": "y"})", "m"); }),
              HasSubstr("schema"));
}

}  // namespace
}  // namespace shardscope
