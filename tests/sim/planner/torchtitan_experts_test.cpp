// torchtitan 0.3's mixtures of experts and dense models beside what PyTorch's allocator counted and
// what NCCL was asked for: tests/data/torchtitan.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/model/huggingface.h"
#include "sim/planner/torchtitan_pipeline.h"
#include "tests/sim/planner/step_collectives.h"

namespace shardscope::planner {
namespace {

using Json = nlohmann::json;

const Json& recorded(const std::string& file) {
  static std::map<std::string, Json> files;
  const auto [at, is_new] = files.try_emplace(file);
  if (is_new)
    at->second = recorded_steps_in(
        file.starts_with("/") ? file : SOURCE_ROOT "/tests/data/torchtitan/" + file);
  return at->second;
}

/// What a row says beside the file's config.json.
JsonValue config_of(const Json& file, const Json& row) {
  Json config = file["config"];
  if (row.contains("config")) {
    config.update(row["config"]);
  } else if (file.value("dense", false)) {
    config["num_hidden_layers"] = row["layers"];
    config["intermediate_size"] = row["hidden"];
  } else {
    config["num_hidden_layers"] = row["layers"];
    config["num_experts"] = row["experts"];
    config["num_experts_per_tok"] = row["top_k"];
    config["moe_intermediate_size"] = row["hidden"];
  }
  return JsonValue::parse(config.dump(), "config.json");
}

eager::CheckpointChoice checkpointing_of(const std::string& name) {
  return eager::parse_checkpoint_choice(name, "checkpointing");
}

/// pp stands in the mesh only where there are stages.
std::vector<eager::parallel::MeshAxis> mesh_of(const Json& row) {
  const int stages = row.value("pipeline", 1), tensor = row.value("tensor", 1);
  const int world = row["world"], replicas = row["replicas"], context = row.value("context", 1);
  std::vector<eager::parallel::MeshAxis> mesh{
      {"dp_replicate", replicas},
      {"dp_shard", world / replicas / context / tensor / stages},
      {"cp", context},
      {"tp", tensor}};
  if (stages > 1) mesh.insert(mesh.begin(), {"pp", stages});
  return mesh;
}

TorchtitanPipeline pipeline_of(const Json& file, const Json& row, const Model& model,
                               const JsonValue& config) {
  const PipelineChoice stages{
      .schedule = parse_pipeline_schedule(row.value("schedule", "1F1B"), "schedule"),
      .stages_per_rank = row.value("stages_per_rank", 1),
      .layers = row.value("stage_layers", std::vector<int>{})};
  TorchtitanPipeline pipeline;
  pipeline.settings = torchtitan_settings(
      {.model = model,
       .mesh = mesh_of(row),
       .batch = row["batch"],
       .length = row.value("tokens", file["tokens"].get<int>()),
       .micro_batches = row["micro_batches"],
       .reshards = row.value("reshards", true),
       .clips = true,
       .precision = parse_training_precision(row.value("precision", "bf16_mixed"), "precision"),
       .optimizer = {.implementation = eager::OptimizerImplementation::fused},
       .checkpointing = checkpointing_of(row["checkpointing"]),
       .pipeline = stages,
       .float8 = row.contains("float8") ? eager::parallel::Float8Recipe::rowwise
                                        : eager::parallel::Float8Recipe::none,
       .config = &config,
       .asks_layers_of_0_3 = file.value("dense", row.value("dense", false)),
       .expert_ranks = row["expert_ranks"],
       .expert_load = row.value("load", 1.0)});
  pipeline.place = {.world = row["world"], .rank = row["rank"]};
  pipeline.session = {.compute_capability = 90};
  if (row.value("compiled", false)) pipeline.compiled = CompileScope::blocks_and_loss;
  return pipeline;
}

/// Of the rank that was recorded.
Schedule own_schedule(const Json& row, const TorchtitanPipeline& pipeline) {
  const int rank = row["rank"], world = row["world"];
  return schedule_of_rank(pipeline, rank / (world / row.value("pipeline", 1)));
}

struct Place {
  std::string file;
  std::size_t number;
};

/// A further file by its whole path, such as one of tests/recordings/random_torchtitan.py.
constexpr const char* own_cases_variable = "SHARDSCOPE_TORCHTITAN_CASES";

std::vector<Place> all_places() {
  std::vector<std::string> files{
      "experts.json", "more_experts.json", "deepseek_v3.json", "tensor.json", "dense.json",
      "context.json", "compiled.json",     "gpt_oss.json",     "meshes.json", "tied.json"};
  if (const char* own = std::getenv(own_cases_variable)) files.emplace_back(own);
  std::vector<Place> places;
  for (const std::string& file : files)
    for (const std::size_t number : places_of_cases(recorded(file)))
      places.push_back({file, number});
  return places;
}

class TorchtitanExperts : public ::testing::TestWithParam<Place> {
 protected:
  const Json& file() const { return recorded(GetParam().file); }
  const Json& row() const { return file()["cases"][GetParam().number]; }
  JsonValue config_ = config_of(file(), row());
  Model model_ = model_of_config(config_);
  TorchtitanPipeline pipeline_ = pipeline_of(file(), row(), model_, config_);
};

TEST_P(TorchtitanExperts, CollectivesAreThoseOfNccl) {
  EXPECT_EQ(collectives_of_last_step(own_schedule(row(), pipeline_), WithDtype::yes),
            recorded_collectives(row()["collectives"]));
}

TEST_P(TorchtitanExperts, PeakIsThatOfPytorch) {
  const HardwareProfile profile = find_hardware_profile("h100_sxm", "--cluster");
  const Summary summary =
      predict_alone(own_schedule(row(), pipeline_), pipeline_, profile, false).summary;
  const auto recorded_peak = row()["peak_bytes"].get<std::int64_t>();
  // Without a search for its kernels FlexAttention leaves a block of 512 bytes elsewhere.
  std::int64_t off = row().contains("untuned") ? 512 : 0;
  // A difference that is not explained yet (README.md of the data) may move by a twentieth.
  const std::int64_t known = row().value("known_difference", std::int64_t{0});
  off += std::abs(known) / 20;
  const std::int64_t more = summary.steps.back().memory.peak_allocated.count - recorded_peak;
  EXPECT_LE(std::abs(more - known), off) << more << " bytes of " << recorded_peak;
}

/// Of a head and a sequence, in each attention that is run forward.
std::set<std::int64_t> attended_pairs(const Schedule& schedule) {
  std::set<std::int64_t> pairs;
  for (const DeviceWork& work : schedule.works)
    if (work.kind == WorkKind::attention_forward) pairs.insert(work.attention.pairs);
  return pairs;
}

/// Of a recording's case.
std::set<std::int64_t> attended_pairs(const std::string& file_name, const std::string& name) {
  const Json& file = recorded(file_name);
  for (const Json& row : file["cases"]) {
    if (row["name"] != name) continue;
    const JsonValue config = config_of(file, row);
    const Model model = model_of_config(config);
    return attended_pairs(own_schedule(row, pipeline_of(file, row, model, config)));
  }
  return {};
}

// 512 tokens. A window of 128: of 4 blocks of queries the first has one block of keys, the others
// two, 7 x 128 x 128. Without one: 512 x 513 / 2. Of two ranks each has half.
TEST(TorchtitanAttention, HasTheKeysThatItsQueriesSee) {
  const std::set<std::int64_t> gpt_oss{114'688, 131'328}, halves{57'344, 65'664};
  EXPECT_EQ(attended_pairs("gpt_oss.json", "gpt_oss_w2"), gpt_oss);
  EXPECT_EQ(attended_pairs("context.json", "gpt_oss_w4_cp2_ep2"), halves);
  EXPECT_EQ(attended_pairs("context.json", "llama3_w2_cp2"), std::set<std::int64_t>{65'664});
  EXPECT_EQ(attended_pairs("dense.json", "llama3_w2"), std::set<std::int64_t>{131'328});
}

INSTANTIATE_TEST_SUITE_P(Recorded, TorchtitanExperts, ::testing::ValuesIn(all_places()),
                         [](const auto& test) {
                           const Place& place = test.param;
                           const Json& name = recorded(place.file)["cases"][place.number]["name"];
                           return name.template get<std::string>();
                         });

}  // namespace
}  // namespace shardscope::planner
