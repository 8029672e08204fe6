// Compiled steps of torchtitan's loop beside what PyTorch's allocator counted and what NCCL was
// asked for: tests/data/compiled/parallel.json.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/model/huggingface.h"
#include "sim/planner/torchtitan_pipeline.h"
#include "tests/sim/planner/step_collectives.h"

namespace shardscope::planner {
namespace {

using Json = nlohmann::json;

const Json& recorded() {
  static const Json file = recorded_steps_in(SOURCE_ROOT "/tests/data/compiled/parallel.json");
  return file;
}

std::vector<eager::parallel::MeshAxis> mesh_of(const Json& row) {
  std::vector<eager::parallel::MeshAxis> mesh;
  for (const char* axis : {"pp", "dp_shard", "tp"})
    if (row["mesh"].contains(axis)) mesh.push_back({axis, row["mesh"][axis].get<int>()});
  return mesh;
}

CompileScope scope_of(const std::string& name) {
  if (name.empty()) return CompileScope::none;
  return name == name_of(CompileScope::blocks) ? CompileScope::blocks
                                               : CompileScope::blocks_and_loss;
}

eager::parallel::Float8Recipe recipe_of(const std::string& name) {
  using enum eager::parallel::Float8Recipe;
  if (name.empty()) return none;
  return name == name_of(tensorwise) ? tensorwise : rowwise;
}

TorchtitanPipeline pipeline_of(const Json& row, const Model& model) {
  TorchtitanPipeline pipeline;
  pipeline.settings =
      torchtitan_settings({.model = model,
                           .mesh = mesh_of(row),
                           .batch = row["batch"],
                           .length = recorded()["tokens"],
                           .micro_batches = row["micro_batches"],
                           .precision = TrainingPrecision::bf16_mixed,
                           .optimizer = {.implementation = eager::OptimizerImplementation::fused},
                           .checkpointing = {.every = row["checkpointing"] == "full" ? 1 : 0},
                           .pipeline = {},
                           .float8 = recipe_of(row["float8"])});
  pipeline.place = {.world = row["world"], .rank = row["rank"]};
  pipeline.session = {.compute_capability = 90};
  pipeline.compiled = scope_of(row["compile"]);
  return pipeline;
}

class CompiledParallel : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Json& row() const { return recorded()["cases"][GetParam()]; }
  Model model_ = model_of_config(JsonValue::parse(recorded()["config"].dump(), "config.json"));
};

TEST_P(CompiledParallel, CollectivesAreThoseOfPytorch) {
  const TorchtitanPipeline pipeline = pipeline_of(row(), model_);
  const int ranks = row()["mesh"].value("pp", 1);
  const int of_stage = pipeline.place.world / ranks;
  EXPECT_EQ(collectives_of_last_step(schedule_of_rank(pipeline, pipeline.place.rank / of_stage)),
            recorded_collectives(row()["collectives"]));
}

TEST_P(CompiledParallel, PeakIsThatOfPytorch) {
  const TorchtitanPipeline pipeline = pipeline_of(row(), model_);
  const HardwareProfile profile = find_hardware_profile("h100_sxm", "--cluster");
  const int ranks = row()["mesh"].value("pp", 1);
  Summary summary;
  if (ranks == 1)
    summary = predict_alone(schedule_of_rank(pipeline, 0), pipeline, profile, false).summary;
  else
    summary = predict_stages(pipeline, profile, false)
                  .at(static_cast<std::size_t>(pipeline.place.rank * ranks / pipeline.place.world))
                  .summary;
  const double predicted = static_cast<double>(summary.steps.back().memory.peak_allocated.count);
  EXPECT_NEAR(predicted / row()["peak_bytes"].get<double>(), 1, row()["within"].get<double>());
}

INSTANTIATE_TEST_SUITE_P(Recorded, CompiledParallel,
                         ::testing::ValuesIn(places_of_cases(recorded())), [](const auto& test) {
                           const Json& name = recorded()["cases"][test.param]["name"];
                           return name.template get<std::string>();
                         });

}  // namespace
}  // namespace shardscope::planner
