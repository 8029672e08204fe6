// estimator.json: DeepSpeed's memory estimators.
#include <nlohmann/json.hpp>

#include "core/pytorch/plans/deepspeed_estimators.h"
#include "tests/recordings/flat_parameters.h"
#include "tests/recordings/recorded_models.h"
#include "tests/recordings/recorded_outcome.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

bool flag(const Json& value) { return value.is_boolean() && value.get<bool>(); }

/// A recorded row with our bytes in the place of its last three columns.
Json computed_row(const Json& recorded) {
  const EstimatorModel model{.elements = recorded.at(1).get<std::int64_t>(),
                             .largest_layer_elements = recorded.at(2).get<std::int64_t>()};
  const EstimatorCluster cluster{.gpus_per_node = recorded.at(3).get<int>(),
                                 .nodes = recorded.at(4).get<int>(),
                                 .additional_buffer_factor = recorded.at(8).get<double>()};
  const EstimatorOffload offload{.optimizer = flag(recorded.at(5)),
                                 .parameters = flag(recorded.at(6)),
                                 .zero_init = flag(recorded.at(7))};
  const bool stage_3 = recorded.at(0) == 3;
  const MemoryEstimate memory =
      stage_3 ? estimate_zero3(model, cluster, offload) : estimate_zero2(model, cluster, offload);
  Json row = recorded;
  row.at(9) = memory.per_node_cpu.count;
  row.at(10) = memory.per_gpu.count;
  row.at(11) = stage_3 ? Json(memory.largest_layer.count) : Json();
  return row;
}

Outcome check(const Json& recorded, const std::filesystem::path& folder, const Options& options) {
  const Json& given = recorded.at("case");
  Json got = recorded;
  if (given.contains("model")) {
    const EstimatorModel model = estimator_model(
        recorded_tree(recorded_model(folder, given.at("model").get<std::string>())));
    got["model_to_params"] = {
        {"stage3", Json::array({model.elements, model.largest_layer_elements})},
        {"stage_1_and_2", model.elements},
        {"sum_of_unique_parameters", model.elements}};
  }
  for (Json& row : got.at("rows")) row = computed_row(row);
  return compared(recorded, got, options);
}

}  // namespace

FlatParametersFile estimator_recordings() {
  return {.name = "estimator", .fields = {"model_to_params", "rows"}, .check = check};
}

}  // namespace shardscope::recordings
