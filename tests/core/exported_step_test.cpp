// What the reader of exported steps refuses, each in a copy of tests/data/exported_steps.
#include "core/model/exported_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/model/read_model.h"
#include "tests/core/complaint.h"

namespace shardscope {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

const std::filesystem::path data = std::filesystem::path(SOURCE_ROOT) / "tests/data/exported_steps";

class ExportedStepReader : public testing::Test {
 protected:
  ExportedStepReader() {
    std::ifstream file(data / "gated.json");
    json_ = Json::parse(file);
  }
  Json& program() { return json_["programs"][0]; }
  /// The first event of a kind.
  Json& event(const std::string& kind) {
    for (Json& event : program()["forward"])
      if (event[0] == kind) return event;
    throw std::logic_error("no event " + kind);
  }
  std::string complaint() const {
    return complaint_of([&] { model_of_json(json_.dump(), "model.json"); });
  }
  Json json_;
};

// gated.json has fp32 and the three programs of bf16_mixed, of one size.
TEST_F(ExportedStepReader, ReadsWhatTheExporterWrites) {
  const Model model = read_model(data / "gated.json");
  ASSERT_TRUE(model.step);
  EXPECT_EQ(model.step->programs.size(), 4);
  EXPECT_EQ(model.step->sequences(), std::vector<std::int64_t>{64});
  EXPECT_EQ(model.step->batches(64), std::vector<std::int64_t>{4});
  EXPECT_TRUE(model.step->has(4, 64));
  EXPECT_FALSE(model.step->has(4, 65));
  const ExportedProgram& program = model.step->programs[1];
  EXPECT_EQ(program.parameters, Dtype::float32);
  EXPECT_EQ(program.autocast, Dtype::bfloat16);
  EXPECT_EQ(program.inputs.size(), 2);
  EXPECT_EQ(program.inputs[1].dtype, Dtype::boolean);
}

TEST_F(ExportedStepReader, RefusesNumbersOutsideOfTheirTables) {
  event("op")[3] = {1 << 20};
  EXPECT_THAT(complaint(), AllOf(HasSubstr("model.json:1: programs[0].forward["),
                                 HasSubstr("expected an integer from 0 to")));
}

TEST_F(ExportedStepReader, RefusesAValueBeforeItIsMade) {
  Json& forward = program()["forward"];
  for (std::size_t i = 0; i < forward.size(); ++i)
    if (forward[i][0] == "op") {
      forward.erase(i);
      break;
    }
  EXPECT_THAT(complaint(), HasSubstr("is used before it is made"));
}

TEST_F(ExportedStepReader, RefusesANodeBeforeItIsMade) {
  Json& forward = program()["forward"];
  for (std::size_t i = 0; i < forward.size(); ++i)
    if (forward[i][0] == "node") {
      forward.erase(i);
      break;
    }
  EXPECT_THAT(complaint(), HasSubstr("node 0 is used before it is made"));
}

TEST_F(ExportedStepReader, RefusesCallsWithoutEnd) {
  Json& forward = program()["forward"];
  for (std::size_t i = forward.size(); i-- > 0;)
    if (forward[i][0] == "return") {
      forward.erase(i);
      break;
    }
  EXPECT_THAT(complaint(), HasSubstr("a module's call has no return"));
}

TEST_F(ExportedStepReader, RefusesCallsThatNeverEndWhenTheyArePlayed) {
  const Json original = json_;
  const Json first = program()["forward"][0];
  program()["forward"].insert(program()["forward"].begin() + 1, first);
  EXPECT_THAT(complaint(), HasSubstr("the model calls itself"));
  json_ = original;
  Json& forward = program()["forward"];
  const Json call = Json::array({"call", "head", Json::array(), 0});
  for (int i = 0; i < 300; ++i) forward.insert(forward.begin() + 1, call);
  EXPECT_THAT(complaint(), HasSubstr("is nested in 256 calls"));
}

TEST_F(ExportedStepReader, RefusesALayoutBeyondItsStorage) {
  program()["storages"][0][0] = 8;
  EXPECT_THAT(complaint(), HasSubstr("bytes into a storage of 8"));
}

TEST_F(ExportedStepReader, RefusesALayoutThatNoMemoryHolds) {
  program()["layouts"][0][1] = {std::int64_t{1} << 40, 2};
  program()["layouts"][0][2] = {std::int64_t{1} << 40, 1};
  EXPECT_THAT(complaint(), HasSubstr("2^53"));
}

TEST_F(ExportedStepReader, RefusesUnknownWords) {
  event("op")[0] = "dance";
  EXPECT_THAT(complaint(), HasSubstr("unknown event \"dance\""));
}

TEST_F(ExportedStepReader, RefusesParametersThatTheModelLacks) {
  for (Json& value : program()["values"])
    if (value[0] == "parameter") {
      value[3] = "nowhere";
      break;
    }
  EXPECT_THAT(complaint(), HasSubstr("there is no parameter \"nowhere\""));
}

TEST_F(ExportedStepReader, RefusesMoreThanANodeSaved) {
  for (Json& node : program()["nodes"])
    for (Json& step : node["steps"])
      if (step[0] == "load") {
        step[2] = 99;
        EXPECT_THAT(complaint(), AllOf(HasSubstr("the node saves"), HasSubstr("tensors")));
        return;
      }
  FAIL() << "no node loads";
}

TEST_F(ExportedStepReader, RefusesAModuleThatTheModelLacks) {
  event("call")[1] = "nowhere";
  EXPECT_THAT(complaint(), HasSubstr("there is no module \"nowhere\""));
}

}  // namespace
}  // namespace shardscope
