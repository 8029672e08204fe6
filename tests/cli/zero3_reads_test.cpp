// ZeRO-3 gathers what a module reads of another one: peaks beside those of the real library, of
// tests/data/zero3_reads.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using Json = nlohmann::json;

const std::filesystem::path data = std::filesystem::path(SOURCE_ROOT) / "tests/data/zero3_reads";

std::string option_of(const std::string& kind) {
  if (kind.empty()) return {};
  if (kind == "liger") return " --liger fused_linear_cross_entropy";
  const std::string targets =
      kind.ends_with("-embedding") ? "embed_tokens+q_proj" : "q_proj+v_proj+down_proj";
  return " --peft r=8,targets=" + targets + (kind.starts_with("dora") ? ",dora" : "");
}

// A scalar more lives here in some: the allocator's smallest block has 512 bytes.
TEST(Zero3Reads, TakeWhatDeepSpeedTakes) {
  const Workplace workplace;
  std::ifstream stream(data / "cases.json");
  for (const Json& row : Json::parse(stream)) {
    const Outcome outcome = workplace.run(
        "simulate --cluster h100_sxm --world 2 --batch 2 --seq 64 --attention flash --json "
        "--deepspeed " +
        (data / "deepspeed.json").string() + " --model " +
        (data / row["config"].get<std::string>()).string() + " --checkpointing " +
        row["checkpointing"].get<std::string>() + option_of(row["kind"]));
    ASSERT_EQ(outcome.code, 0) << row << outcome.errors;
    const Json answer = Json::parse(outcome.output);
    const Json& peaks = row["peak_allocated_bytes"];
    for (std::size_t step = 0; step < peaks.size(); ++step) {
      const std::int64_t predicted = answer["steps"][step]["memory"]["peak_allocated_bytes"];
      EXPECT_GE(predicted, peaks[step].get<std::int64_t>()) << row << " step " << step;
      EXPECT_LE(predicted, peaks[step].get<std::int64_t>() + 512) << row << " step " << step;
    }
  }
}

}  // namespace
}  // namespace shardscope::testing
