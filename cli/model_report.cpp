#include "cli/model_report.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

/// Model states do not depend on the sequence, so that the shortest one shows them.
Schedule smallest_schedule(const Scenario& scenario) {
  Workload workload = scenario.workload;
  workload.batch = 1;
  workload.length = 1;
  return native_schedule(scenario.model, scenario.strategy, workload, scenario.rank);
}

Json model_json(const Model& model) {
  return {{"family", model.family},
          {"class", model.class_name},
          {"parameter_elements", model.parameter_elements()},
          {"trainable_elements", model.trainable_elements()},
          {"dtype", name_of(model.dtype)}};
}

Json parameters_json(const Model& model) {
  Json result = Json::array();
  for (const Parameter& p : model.parameters) {
    result.push_back({{"name", p.name},
                      {"shape", p.shape},
                      {"dtype", name_of(p.dtype)},
                      {"trainable", p.trainable}});
  }
  return result;
}

Json tied_json(const Model& model) {
  Json result = Json::array();
  for (const TiedName& tied : model.tied) result.push_back(Json::array({tied.later, tied.first}));
  return result;
}

Json buffers_json(const Model& model) {
  Json result = Json::array();
  for (const ModelBuffer& b : model.buffers) {
    result.push_back({{"name", b.name},
                      {"shape", b.shape},
                      {"dtype", name_of(b.dtype)},
                      {"persistent", b.persistent}});
  }
  return result;
}

Json modules_json(const Model& model) {
  Json result = Json::array();
  for (const Module& module : model.modules)
    result.push_back({{"name", module.name}, {"class", module.class_name}});
  return result;
}

Json units_json(const ModelReport& report) {
  Json result = Json::array();
  for (const Unit& unit : report.units) {
    Json parameters = Json::array();
    for (const FlatSlot& slot : unit.slots) {
      parameters.push_back(report.scenario.model.parameters[slot.parameter.value].name);
    }
    result.push_back({{"name", unit.name},
                      {"class", unit.class_name},
                      {"parameters", std::move(parameters)},
                      {"elements", unit.elements},
                      {"unpadded_elements", unit.unpadded_elements},
                      {"padded_elements", unit.padded_elements},
                      {"shard_elements", unit.shard_elements},
                      {"padding_elements_by_rank", unit.padding_elements_by_rank}});
  }
  return result;
}

Json states_json(const ModelStates& states) {
  return {{"p_bytes", states.parameters.count},
          {"g_bytes", states.gradients.count},
          {"os_bytes", states.optimizer_states.count}};
}

Json totals_json(const ModelReport& report) {
  Json result = states_json(report.whole);
  result["per_rank"] = states_json(report.rank.schedule);
  result["per_rank_padding"] = states_json(report.rank.padding);
  result["per_rank_zero_paper"] = states_json(report.rank.paper);
  return result;
}

}  // namespace

ModelReport report_model(Scenario scenario) {
  const Schedule schedule = smallest_schedule(scenario);
  const std::int64_t elements = scenario.model.trainable_elements();
  const auto paper = [&](ShardingStrategy sharding, int shards) {
    return zero_paper_states(elements, sharding, shards, scenario.workload.optimizer,
                             StatePrecision::fp32, Dtype::float32);
  };
  ModelReport report{
      .whole = paper(ShardingStrategy::no_shard, 1),
      .rank = {.paper = paper(scenario.strategy.sharding, scenario.strategy.mesh.shard),
               .schedule = states_of(schedule),
               .padding = padding_of(schedule)},
      .units = schedule.units};
  report.scenario = std::move(scenario);
  return report;
}

std::string to_json(const ModelReport& report) {
  const Scenario& scenario = report.scenario;
  const Json json{{"schema", "shardscope.model/1"},
                  {"model", model_json(scenario.model)},
                  {"parameters", parameters_json(scenario.model)},
                  {"tied", tied_json(scenario.model)},
                  {"buffers", buffers_json(scenario.model)},
                  {"modules", modules_json(scenario.model)},
                  {"strategy", name_of(scenario.strategy.sharding)},
                  {"mesh", text_of(scenario.strategy.mesh)},
                  {"wrap", text_of(scenario.strategy.wrap)},
                  {"world", scenario.world},
                  {"units", units_json(report)},
                  {"totals", totals_json(report)},
                  {"assumed", scenario.assumed}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardscope
