// torchtitan's configurations in Python, read without running them, beside what torchtitan itself
// makes of them (tests/data/recipes/dump_torchtitan.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/config/python/python_functions.h"
#include "core/config/recipe_file.h"
#include "core/format/atomic_file.h"
#include "tests/core/complaint.h"

namespace shardscope::torchtitan_python {
namespace {

const std::string folder = std::string(SOURCE_ROOT) + "/tests/data/recipes/";

Recipe recipe_of(const std::string& name) { return read_recipe(read_config_file(folder + name)); }

Recipe written(std::string text, std::string function = {}) {
  return read_recipe({.path = function.empty() ? "run.py" : "run.py:" + function,
                      .kind = ConfigKind::torchtitan,
                      .text = std::move(text)});
}

std::string refusal(std::string text, std::string function = {}) {
  return complaint_of([&] { written(std::move(text), std::move(function)); });
}

/// An axis of one rank is left out. The ranks that are left over (-1) are not named.
std::string mesh_of(const nlohmann::json& real) {
  std::string mesh;
  for (const std::string axis : {"pipeline", "shard", "context", "tensor", "expert"}) {
    const int ranks = real.at(axis);
    if (ranks > 1 || (axis == "shard" && ranks == 1))
      mesh += (mesh.empty() ? "" : ",") + axis + "=" + std::to_string(ranks);
  }
  return mesh;
}

std::string compiled(const nlohmann::json& real) {
  const auto parts = real.at("compile").get<std::vector<std::string>>();
  const auto has = [&](const char* part) {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  if (!has("model")) return "";
  return has("loss") ? "blocks+loss" : "blocks";
}

std::string checkpointing(const nlohmann::json& real) {
  if (real.at("checkpointing").is_null()) return "none";
  return real.at("checkpointing") == "FullAC.Config" ? "full" : "selective";
}

TEST(TorchtitanPython, SaysWhatTorchtitanSays) {
  const auto real = nlohmann::json::parse(read_whole(folder + "torchtitan_0_3.json", 1 << 20));
  int read = 0, refused = 0;
  for (const auto& [name, config] : real.items()) {
    if (name.find("nvfp4") + 1 || name.find("mxfp8") + 1 || name.find("lora") + 1 ||
        name.find("671b_float8") + 1) {
      EXPECT_NE(complaint_of([&] { recipe_of(name); }).find("is not modelled"), std::string::npos);
      ++refused;
      continue;
    }
    const Recipe recipe = recipe_of(name);
    ASSERT_TRUE(recipe.own_loop) << name;
    const Recipe::OwnLoop& loop = *recipe.own_loop;
    EXPECT_EQ(recipe.model, config.at("hf_assets_path")) << name;
    EXPECT_EQ(recipe.length, config.at("seq_len").get<std::int64_t>()) << name;
    EXPECT_EQ(loop.batch * loop.micro_batches, config.at("local_batch_size")) << name;
    EXPECT_EQ(loop.clip, config.at("max_norm")) << name;
    EXPECT_EQ(loop.mesh, mesh_of(config)) << name;
    EXPECT_EQ(loop.compile, compiled(config)) << name;
    EXPECT_EQ(loop.checkpointing, checkpointing(config)) << name;
    EXPECT_EQ(loop.layers, "torchtitan-0.3") << name;
    ++read;
  }
  EXPECT_EQ(read, 21);
  EXPECT_EQ(refused, 7);
}

TEST(TorchtitanPython, FollowsFloat8AndAsksForAFunction) {
  EXPECT_EQ(recipe_of("torchtitan_0_3_llama3.py:llama3_405b").own_loop->float8, "rowwise");
  const std::string several = complaint_of([] { recipe_of("torchtitan_0_3_llama3.py"); });
  EXPECT_NE(several.find("has 14 functions; name one: "), std::string::npos) << several;
  const std::string none = complaint_of([] { recipe_of("torchtitan_0_3_llama3.py:llama4"); });
  EXPECT_NE(none.find("has no function llama4"), std::string::npos) << none;
}

// What Python would make of it, by hand.
TEST(TorchtitanPython, FollowsConstantsParametersAndBranches) {
  const Recipe recipe = written(R"(
BATCH = 2 * 3
def base(seq_len: int = 1024, tensor=1) -> Trainer.Config:
    """A text with return in it."""
    config = Trainer.Config(
        training=TrainingConfig(local_batch_size=BATCH, seq_len=seq_len),
        activation_checkpoint=None if tensor > 4 else FullAC.Config(),
    )
    if tensor > 1 and not False:
        config.parallelism.tensor_parallel_degree = tensor
    elif tensor == 1:
        config.parallelism.tensor_parallel_degree = 16
    return config
def chosen():
    config = base(4096, tensor=8)
    config.compile = CompileConfig(enable=True, components=["model"])
    return config
)",
                                "chosen");
  EXPECT_EQ(recipe.length, 4096);
  EXPECT_EQ(recipe.own_loop->batch, 6);
  EXPECT_EQ(recipe.own_loop->mesh, "tensor=8");
  EXPECT_EQ(recipe.own_loop->checkpointing, "none");
  EXPECT_EQ(recipe.own_loop->compile, "blocks");
}

TEST(TorchtitanPython, RefusesWhatOnlyRunningTells) {
  const std::string head = "def run():\n    config = Trainer.Config()\n";
  EXPECT_NE(refusal(head + "    for i in range(3):\n        pass\n    return config\n")
                .find("run.py:3: `for` is not followed"),
            std::string::npos);
  EXPECT_NE(refusal(head + "    if torch.cuda.is_available():\n        pass\n    return config\n")
                .find("run.py:3: a condition is not known"),
            std::string::npos);
  EXPECT_NE(refusal(head + "    t = config.training\n    t.seq_len = 4\n    return config\n")
                .find("run.py:4: t is a part of another value"),
            std::string::npos);
  EXPECT_NE(refusal("def run():\n    return 5\n").find("returns no Trainer.Config"),
            std::string::npos);
  EXPECT_NE(refusal("x = 1\n").find("has no function"), std::string::npos);
  EXPECT_NE(refusal("def run():\n    return f(\n").find("run.py:3: a bracket stays open"),
            std::string::npos);
  EXPECT_NE(refusal("def run():\n    return run()\n").find("too deeply"), std::string::npos);
  EXPECT_NE(refusal("def run():\n    x = 'a\n").find("a text stays open"), std::string::npos);
}

// Each of 16 levels calls the next one twice, and each value holds two of the one before.
TEST(TorchtitanPython, EndsWhereAConfigurationGrowsWithoutEnd) {
  std::string calls = "def f15():\n    return 1\n", values = "def g():\n    a = [1, 1]\n";
  for (int i = 14; i >= 0; --i)
    calls += "def f" + std::to_string(i) + "():\n    return f" + std::to_string(i + 1) + "() or f" +
             std::to_string(i + 1) + "() or f" + std::to_string(i + 1) + "()\n";
  for (int i = 0; i < 60; ++i) values += "    a = [a, a]\n";
  EXPECT_NE(refusal(calls, "f0").find("too often"), std::string::npos);
  EXPECT_NE(refusal(values + "    return a\n").find("too many values"), std::string::npos);
  EXPECT_NE(refusal("def g():\n    return " + std::string(5000, '(') + "1" +
                    std::string(5000, ')') + "\n")
                .find("nested too deeply"),
            std::string::npos);
}

TEST(TorchtitanPython, WarnsOfWhatItLeavesOut) {
  const Recipe recipe =
      recipe_of("torchtitan_0_3_deepseek_v3.py:deepseek_v3_debugmodel_minimal_async_ep");
  std::string keys;
  for (const Finding& finding : recipe.findings) keys += finding.key + " ";
  EXPECT_NE(keys.find("model_spec.moe_comm_backend"), std::string::npos) << keys;
  EXPECT_NE(keys.find("enable_fused_swiglu(config)"), std::string::npos) << keys;
}

}  // namespace
}  // namespace shardscope::torchtitan_python
