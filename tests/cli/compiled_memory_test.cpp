// Memory of compiled steps beside what PyTorch's allocator counted: tests/data/compiled.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using Json = nlohmann::json;

const Json& compiled_steps() {
  static const Json file = [] {
    std::ifstream stream(SOURCE_ROOT "/tests/data/compiled/cases.json");
    return Json::parse(stream);
  }();
  return file;
}

std::vector<std::size_t> all_cases() {
  std::vector<std::size_t> all(compiled_steps()["cases"].size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

constexpr const char* accelerate_file = R"(compute_environment: LOCAL_MACHINE
distributed_type: 'NO'
num_processes: 1
num_machines: 1
machine_rank: 0
use_cpu: false
)";

std::string arguments_of(const Json& row) {
  const bool sharded = row["runtime"] == "fsdp2";
  std::string text =
      "simulate --model config.json --cluster h100_sxm --json --clip 0 --optimizer "
      "adamw --optimizer-implementation fused";
  text += sharded ? " --runtime fsdp2 --world 8 --precision bf16_mixed"
                  : " --accelerate accelerate.yaml";
  if (row["precision"] == "bf16")
    text += std::string(" --base-dtype bfloat16 --trainable-dtype ") +
            (row.contains("peft") ? "float32" : "bfloat16");
  if (row.contains("peft")) text += " --peft " + row["peft"].get<std::string>();
  for (const char* key : {"compile", "loss", "checkpointing"})
    text += std::string(" --") + key + " " + row[key].get<std::string>();
  return text + " --batch " + row["batch"].dump() + " --seq " + row["seq"].dump();
}

class CompiledMemory : public ::testing::TestWithParam<std::size_t> {};

TEST_P(CompiledMemory, IsThatOfPytorch) {
  const Json& row = compiled_steps()["cases"][GetParam()];
  const Workplace workplace;
  workplace.write("config.json",
                  compiled_steps()["models"][row["model"].get<std::string>()].dump());
  const std::string precision = row["precision"] == "amp" ? "bf16" : "'no'";
  workplace.write("accelerate.yaml", accelerate_file + ("mixed_precision: " + precision + "\n"));
  const Outcome outcome = workplace.run(arguments_of(row));
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const Json answer = Json::parse(outcome.output);
  const double predicted = answer["steps"].back()["memory"]["peak_allocated_bytes"];
  const double measured =
      std::max(row["forward_peak_bytes"].get<double>(), row["backward_peak_bytes"].get<double>());
  EXPECT_NEAR(predicted / measured, 1, row["within"].get<double>());
}

INSTANTIATE_TEST_SUITE_P(Recorded, CompiledMemory, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) {
                           const Json& name = compiled_steps()["cases"][test.param]["name"];
                           return name.template get<std::string>();
                         });

TEST(CompiledMemory, IsSaidInTheHeadline) {
  const Json& row = compiled_steps()["cases"][2];
  const Workplace workplace;
  workplace.write("config.json",
                  compiled_steps()["models"][row["model"].get<std::string>()].dump());
  const std::string command =
      "simulate --model config.json --cluster h100_sxm --runtime fsdp2 "
      "--world 2 --batch 1 --seq 512 --checkpointing none";
  const Outcome eager = workplace.run(command);
  const Outcome compiled = workplace.run(command + " --compile blocks");
  ASSERT_EQ(compiled.code, 0) << compiled.errors;
  EXPECT_NE(compiled.output.find("compiled blocks"), std::string::npos) << compiled.output;
  EXPECT_EQ(eager.output.find("compiled"), std::string::npos) << eager.output;
}

TEST(CompiledMemory, OfABrokenGraphIsSaidToBeThatOfEagerCode) {
  const Workplace workplace;
  set_up_tiny_job(workplace);
  const Outcome outcome = workplace.run(
      "simulate --model model --cluster h100_sxm --runtime ddp --world 2 --seq 32 --compile model "
      "--json");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(Json::parse(outcome.output)["assumed"].dump().find(
                "transformers breaks the graph of a compiled GPT2LMHeadModel"),
            std::string::npos);
}

}  // namespace
}  // namespace shardscope::testing
