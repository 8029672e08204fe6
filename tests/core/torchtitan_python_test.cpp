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
                .find("run.py:4: t is not known"),
            std::string::npos);
  EXPECT_NE(refusal("def run():\n    return 5\n").find("returns no Trainer.Config"),
            std::string::npos);
  EXPECT_NE(refusal("x = 1\n").find("has no function"), std::string::npos);
  EXPECT_NE(refusal("def run():\n    return f(\n").find("run.py:3: a bracket stays open"),
            std::string::npos);
  EXPECT_NE(refusal("def run():\n    return run()\n").find("too deeply"), std::string::npos);
  EXPECT_NE(refusal("def run():\n    x = 'a\n").find("a text stays open"), std::string::npos);
}

/// As the last statement of a function, its value in place of Trainer.Config's arguments.
std::string with(const std::string& arguments) {
  return "def run():\n    return Trainer.Config(" + arguments + ")\n";
}

std::string warnings_of(const Recipe& recipe) {
  std::string keys;
  for (const Finding& finding : recipe.findings) keys += finding.key + " ";
  return keys;
}

// The fields are those of torchtitan 0.3, trainer.py: all are taken by name (kw_only).
TEST(TorchtitanPython, RefusesSectionsThatOnlyRunningTells) {
  const std::pair<const char*, const char*> sections[] = {
      {"training=TRAINING", "training"},
      {"training=None", "training"},
      {"training=TrainingConfig(8)", "training"},
      {"training=TrainingConfig(**{'seq_len': LENGTH})", "seq_len"},
      {"parallelism=get_par()", "parallelism"},
      {"compile=COMP", "compile"},
      {"optimizer=make_opt()", "optimizer"},
      {"optimizer=OptimizersContainer.Config()", "param_groups"},
      {"model_spec=SPEC", "model_spec"},
      {"model_spec=model_registry('8B', 'flex')", "model_spec"},
      {"activation_checkpoint=AC", "activation_checkpoint"},
      {"activation_checkpoint=MemoryBudgetAC.Config()", "activation_checkpoint"},
      {"training=TrainingConfig(seq_len=None)", "training.seq_len"},
      {"training", "by name"}};
  for (const auto& [arguments, said] : sections) {
    const std::string message = refusal(with(arguments));
    EXPECT_EQ(message.find("run.py:2: "), 0U) << arguments << ": " << message;
    EXPECT_NE(message.find(said), std::string::npos) << arguments << ": " << message;
  }
  EXPECT_NE(refusal("def run():\n    return TrainingConfig()\n").find("returns no Trainer.Config"),
            std::string::npos);
  EXPECT_NE(refusal("def run():\n    return Trainer.Config(), 1\n").find("run.py:2: "),
            std::string::npos);
  EXPECT_NE(refusal("def run():\n    c = Trainer.Config(training=TRAINING)\n"
                    "    c.training.seq_len = 4\n    return c\n")
                .find("run.py:3: training is not known"),
            std::string::npos);
  const std::string training = with("training=TrainingConfig()");
  EXPECT_NE(refusal(training + "class TrainingConfig(Base):\n    seq_len: int = 4\n")
                .find("got this file's TrainingConfig"),
            std::string::npos);
  EXPECT_NE(refusal(training + "TrainingConfig = partial(Other, seq_len=4)\n")
                .find("got what is assigned to TrainingConfig"),
            std::string::npos);
  EXPECT_EQ(written(with("optimizer=default_adamw(3e-4)")).own_loop->optimizer, "adamw");
}

// In Python two names of one object see each other's changes.
TEST(TorchtitanPython, FollowsTwoNamesOfOneValue) {
  const char* bodies[] = {
      "    a = Trainer.Config()\n    b = a\n    a.training.seq_len = 4096\n    return b\n",
      "    t = TrainingConfig(seq_len=1)\n    c = Trainer.Config(training=t)\n"
      "    t.seq_len = 4096\n    return c\n",
      "    c = Trainer.Config(training=TrainingConfig(seq_len=1))\n    t = c.training\n"
      "    t.seq_len = 4096\n    return c\n",
      "    c = Trainer.Config()\n    _ = tweak(c)\n    return c\n",
      "    c = Trainer.Config()\n    tweak(c)\n    return c\n",
      "    c = Trainer.Config()\n    c = c if True else tweak(tweak(c))\n"
      "    c.training.seq_len = 4090\n    c.training.seq_len += 2 * 3\n    return c\n",
      "    c = Trainer.Config(training=TrainingConfig(seq_len=4096))\n"
      "    d = replace(c, training=dataclasses.replace(c.training, seq_len=1))\n    return c\n",
      "    c = Trainer.Config(training=TrainingConfig(seq_len=1))\n"
      "    return replace(c, training=replace(c.training, seq_len=4096))\n",
      "    c = Trainer.Config()\n    False and tweak(c)\n    x = False and tweak(c)\n"
      "    c.training.seq_len = 4096\n    return c if not not 1 else tweak(c)\n"};
  const std::string tweak =
      "def tweak(config):\n    config.training.seq_len = 4096\n    return config\n";
  for (const char* body : bodies)
    EXPECT_EQ(written(tweak + "def run():\n" + body, "run").length, 4096) << body;
}

TEST(TorchtitanPython, RefusesChangesThatOnlyRunningTells) {
  const char* lines[] = {"_ = imported(c)",
                         "_ = c.to(1)",
                         "_ = imported() or tweak(c)",
                         "x = [tweak(c) for i in range(2)]",
                         "pass; c.training.seq_len = 4",
                         "c.model_spec.flavor.x.y = 1",
                         "c.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a = 1"};
  for (const std::string line : lines)
    EXPECT_NE(refusal("def tweak(config):\n    return config\ndef run():\n    c = "
                      "Trainer.Config(model_spec=model_registry('8B'))\n    " +
                          line + "\n    return c\n",
                      "run")
                  .find("run.py:5: "),
              std::string::npos)
        << line;
}

// What Python would make of the module's names, by hand.
TEST(TorchtitanPython, TakesConstantsThatAreAssignedOnce) {
  const std::string run =
      "def run():\n    return Trainer.Config(training=TrainingConfig(local_batch_size=BATCH))\n";
  const auto batch = [&](const std::string& head) { return written(head + run).own_loop->batch; };
  EXPECT_EQ(batch("BATCH: int = 4\n"), 4);
  EXPECT_EQ(batch("TWO = 2\nBATCH = TWO * 3\n"), 6);
  EXPECT_EQ(batch("UNUSED = [*range(3)]\nBATCH = 5\n"), 5);
  EXPECT_EQ(batch("BATCH = 5\ndef _other():\n    BATCH = 6\n"), 5);
  for (const char* head : {"BATCH = 4\nif fast():\n    BATCH = 8\n", "BATCH = 4\nBATCH += 4\n",
                           "BATCH = 4\nBATCH, x = 8, 1\n", "BATCH = 4\nfrom sizes import BATCH\n",
                           "BATCH = 4\ndef _more():\n    global BATCH\n    BATCH = 8\n",
                           "BATCH = 4\nfor BATCH in range(9):\n    pass\n", "BATCH = BATCH\n"})
    EXPECT_EQ(refusal(head + run).find("run.py:1: BATCH "), 0U) << head << refusal(head + run);
  const std::string module = "T = TrainingConfig(seq_len=1)\n";
  EXPECT_EQ(refusal(module + "T.seq_len = 4\n" + with("training=T")).find("run.py:1: T "), 0U);
  EXPECT_EQ(refusal(module + "def run():\n    T.seq_len = 4\n" +
                    "    return Trainer.Config(training=T)\n")
                .find("run.py:3: T "),
            0U);
}

TEST(TorchtitanPython, EndsWhereTextIsNestedDeeply) {
  std::string nots = "def run():\n    return ",
              path = "def run():\n    c = Trainer.Config()\n    c";
  for (int i = 0; i < 200'000; ++i) nots += "not ";
  for (int i = 0; i < 200'000; ++i) path += ".a";
  EXPECT_NE(refusal(nots + "1\n").find("returns no Trainer.Config"), std::string::npos);
  EXPECT_EQ(refusal(path + " = 1\n    return c\n").find("run.py:3: "), 0U);
  std::string calls = "def run():\n    return f0()\ndef f15():\n    return 1\n";
  for (int i = 0; i < 15; ++i)
    calls += "def f" + std::to_string(i) + "():\n    return " + std::string(28, '[') + "f" +
             std::to_string(i + 1) + "()" + std::string(28, ']') + "\n";
  EXPECT_NE(refusal(calls, "run").find("nested too deeply"), std::string::npos);
  EXPECT_EQ(refusal("def run():\n    c = Trainer.Config()\n    c.training = c\n    return c\n")
                .find("run.py:"),
            0U);
}

// Each of 16 levels calls the next one twice, and each value holds two of the one before.
TEST(TorchtitanPython, EndsWhereAConfigurationGrowsWithoutEnd) {
  std::string calls = "def f15():\n    return 1\n", values = "def g():\n    a = [1, 1]\n";
  for (int i = 14; i >= 0; --i)
    calls += "def f" + std::to_string(i) + "():\n    a = f" + std::to_string(i + 1) +
             "()\n    b = f" + std::to_string(i + 1) + "()\n    return f" + std::to_string(i + 1) +
             "()\n";
  for (int i = 0; i < 60; ++i) values += "    a = [a, a]\n";
  EXPECT_NE(refusal(calls, "f0").find("too often"), std::string::npos);
  EXPECT_NE(refusal(values + "    return a\n").find("too many values"), std::string::npos);
  EXPECT_NE(refusal("def g():\n    return " + std::string(5000, '(') + "1" +
                    std::string(5000, ')') + "\n")
                .find("nested too deeply"),
            std::string::npos);
}

TEST(TorchtitanPython, WarnsOfWhatItLeavesOut) {
  const std::string keys = warnings_of(
      recipe_of("torchtitan_0_3_deepseek_v3.py:deepseek_v3_debugmodel_minimal_async_ep"));
  EXPECT_NE(keys.find("model_spec.moe_comm_backend"), std::string::npos) << keys;
  EXPECT_NE(keys.find("enable_fused_swiglu(config)"), std::string::npos) << keys;
}

// torchtitan 0.3, loss.py: ChunkedLossWrapper has 8 chunks of a CrossEntropyLoss unless told.
// activation_checkpoint.py: SelectiveAC recomputes products like the router's.
TEST(TorchtitanPython, WarnsOfEachSettingThatItDrops) {
  const std::pair<const char*, const char*> dropped[] = {
      {"loss=ChunkedLossWrapper.Config(num_chunks=2)", "loss.num_chunks "},
      {"loss=ChunkedLossWrapper.Config(loss_fn=MSELoss.Config())", "loss.loss_fn "},
      {"loss=CrossEntropyLoss.Config()", "loss "},
      {"override=OverrideConfig(imports=['a.b'])", "override "},
      {"sedd=1", "sedd "},
      {"model_spec=model_registry('16B', non_blocking_capacity_factor=1.0)",
       "model_spec.non_blocking_capacity_factor "},
      {"optimizer=default_adamw(amsgrad=True)", "optimizer.amsgrad "},
      {"activation_checkpoint=SelectiveAC.Config(force_recompute_mm_shapes_by_fqns=['wq'])",
       "activation_checkpoint.force_recompute_mm_shapes_by_fqns "},
      {"loss=ChunkedLossWrapper.Config(num_chunks=8, loss_fn=CrossEntropyLoss.Config()), seed=1",
       "seed "},
      {"activation_checkpoint=SelectiveAC.Config("
       "force_recompute_mm_shapes_by_fqns=['moe.router.gate'], debug=True)",
       ""}};
  for (const auto& [arguments, keys] : dropped)
    EXPECT_EQ(warnings_of(written(with(arguments))), keys) << arguments;
  EXPECT_EQ(written(with("compile=CompileConfig(enable=True, components=[])")).own_loop->compile,
            "");
}

}  // namespace
}  // namespace shardscope::torchtitan_python
