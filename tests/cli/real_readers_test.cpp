// What `convert` wrote, read by the real accelerate and DeepSpeed. Runs where SHARDSCOPE_PYTHON
// names a Python that has them, and is skipped, saying so, elsewhere.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace shardscope::testing {
namespace {

using Json = nlohmann::json;

struct Written {
  const char* strategy;  ///< fsdp_sharding_strategy of the file that is converted
  Json version_1, version_2, deepspeed;
};
void PrintTo(const Written& written, std::ostream* out) { *out << written.strategy; }

class RealReaders : public ::testing::TestWithParam<Written> {
 protected:
  void SetUp() override {
    if (getenv("SHARDSCOPE_PYTHON") == nullptr)
      GTEST_SKIP() << "SHARDSCOPE_PYTHON names no Python with accelerate and DeepSpeed";
    for (const char* tool : {"accelerate", "deepspeed"})
      if (system((std::string("\"$SHARDSCOPE_PYTHON\" -c 'import importlib.util, sys; "
                              "sys.exit(importlib.util.find_spec(\"") +
                  tool + "\") is None)'")
                     .c_str()) != 0)
        GTEST_SKIP() << "the Python of SHARDSCOPE_PYTHON has no " << tool;
    workplace_.write("given.yaml",
                     std::string("distributed_type: FSDP\nmixed_precision: bf16\nnum_machines: 2\n"
                                 "num_processes: 16\nmain_process_ip: 127.0.0.1\n"
                                 "main_process_port: 29500\nfsdp_config:\n  fsdp_version: 1\n"
                                 "  fsdp_sharding_strategy: ") +
                         GetParam().strategy + "\n");
  }
  /// Converts and has the result read by `tool`.
  Json read(const std::string& format, const std::string& tool) const {
    const std::string file = tool == "deepspeed" ? "written.json" : "written.yaml";
    EXPECT_EQ(workplace_.run("convert given.yaml --quiet --to " + format + " -o " + file).code, 0);
    const std::string command = "cd '" + workplace_.path().string() +
                                "' && \"$SHARDSCOPE_PYTHON\" '" + SHARDSCOPE_READ_CONVERTED + "' " +
                                tool + " " + file + " > read.json 2> errors.txt";
    EXPECT_EQ(system(command.c_str()), 0) << workplace_.read("errors.txt");
    return Json::parse(workplace_.read("read.json"), nullptr, false);
  }
  Workplace workplace_;
};

TEST_P(RealReaders, TakeTheFileForTheSameStrategy) {
  EXPECT_EQ(read("accelerate-v1", "accelerate"), GetParam().version_1);
  EXPECT_EQ(read("accelerate-v2", "accelerate"), GetParam().version_2);
  EXPECT_EQ(read("deepspeed", "deepspeed"), GetParam().deepspeed);
}

Json accelerate(int version, const char* strategy) {
  return {{"version", version}, {"strategy", strategy}};
}
Json zero(int stage, int hpz) { return {{"stage", stage}, {"hpz", hpz}}; }

INSTANTIATE_TEST_SUITE_P(
    Strategies, RealReaders,
    ::testing::Values(
        Written{"FULL_SHARD", accelerate(1, "FULL_SHARD"), accelerate(2, "FULL_SHARD"), zero(3, 1)},
        Written{"SHARD_GRAD_OP", accelerate(1, "SHARD_GRAD_OP"), accelerate(2, "SHARD_GRAD_OP"),
                zero(2, 1)},
        Written{"NO_SHARD", accelerate(1, "NO_SHARD"), accelerate(0, "NO_SHARD"), zero(0, 1)},
        Written{"HYBRID_SHARD", accelerate(1, "HYBRID_SHARD"), accelerate(2, "HYBRID_SHARD"),
                zero(3, 8)},
        Written{"HYBRID_SHARD_ZERO2", accelerate(1, "HYBRID_SHARD_ZERO2"),
                accelerate(2, "HYBRID_SHARD_ZERO2"), zero(2, 1)}),
    [](const auto& given) { return std::string(given.param.strategy); });

}  // namespace
}  // namespace shardscope::testing
