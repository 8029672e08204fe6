#include "cli/model_report.h"
#include "core/native/native_schedule.h"
#include "core/native/zero_paper.h"
#include "core/schedule/model_states.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

/// Model states do not depend on the sequence, so that the shortest one shows them.
Schedule smallest_schedule(const NativeScenario& scenario) {
  Workload workload = scenario.workload;
  workload.batch = 1;
  workload.length = 1;
  return native_schedule(scenario.model, scenario.strategy, workload, scenario.rank);
}

PlannedUnit planned(const Unit& unit, const Model& model) {
  PlannedUnit result{.name = unit.name,
                     .class_name = unit.class_name,
                     .elements = unit.elements,
                     .unpadded_elements = unit.unpadded_elements,
                     .padded_elements = unit.padded_elements,
                     .shard_elements = unit.shard_elements,
                     .padding_elements_by_rank = unit.padding_elements_by_rank};
  for (const FlatSlot& slot : unit.slots)
    result.parameters.push_back(model.parameters[slot.parameter.value].name);
  return result;
}

/// What the paper says of a strategy over `strategy.mesh.shard` ranks.
ModelStates paper_states(const Model& model, const Optimizer& optimizer, const Strategy& strategy) {
  return zero_paper_states(model.trainable_elements(), strategy.sharding, strategy.mesh.shard,
                           optimizer, strategy.precision, dtypes_of(strategy.precision).gradients);
}

/// One device that holds everything.
Strategy unsharded(Precision precision) {
  return {.sharding = ShardingStrategy::no_shard, .precision = precision};
}

ShardingPlan native_plan(const NativeScenario& scenario) {
  const Schedule schedule = smallest_schedule(scenario);
  const Strategy& strategy = scenario.strategy;
  const Optimizer& optimizer = scenario.workload.optimizer;
  ShardingPlan plan{.runtime = Runtime::native,
                    .strategy = std::string(name_of(strategy.sharding)),
                    .mesh = text_of(strategy.mesh),
                    .wrap = text_of(strategy.wrap),
                    .precision = std::string(name_of(strategy.precision)),
                    .optimizer = std::string(name_of(optimizer.kind)),
                    .world = scenario.world,
                    .whole = paper_states(scenario.model, optimizer, unsharded(strategy.precision)),
                    .per_rank = states_of(schedule),
                    .padding = padding_of(schedule),
                    .paper = paper_states(scenario.model, optimizer, strategy)};
  for (const Unit& unit : schedule.units) plan.units.push_back(planned(unit, scenario.model));
  return plan;
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

Json units_json(const ShardingPlan& plan) {
  Json result = Json::array();
  for (const PlannedUnit& unit : plan.units) {
    Json json{{"name", unit.name},
              {"class", unit.class_name},
              {"parameters", unit.parameters},
              {"elements", unit.elements},
              {"unpadded_elements", unit.unpadded_elements},
              {"padded_elements", unit.padded_elements},
              {"shard_elements", unit.shard_elements},
              {"padding_elements_by_rank", unit.padding_elements_by_rank}};
    if (plan.runtime == Runtime::fsdp2) {
      json["parameters_sharded"] = Json::array();
      for (const ShardedParameter& p : unit.parameters_sharded)
        json["parameters_sharded"].push_back({{"name", p.name},
                                              {"shard_shape", p.shard_shape},
                                              {"padded_shard_elements", p.padded_shard_elements}});
    }
    result.push_back(std::move(json));
  }
  return result;
}

Json buckets_json(const ShardingPlan& plan) {
  Json result = Json::array();
  for (const PlannedBucket& bucket : plan.buckets)
    result.push_back({{"parameters", bucket.parameters},
                      {"elements", bucket.elements},
                      {"padded_elements", bucket.padded_elements},
                      {"shard_elements", bucket.shard_elements}});
  return result;
}

Json partitions_json(const ShardingPlan& plan) {
  Json result = Json::array();
  for (const PlannedPartition& partition : plan.partitions)
    result.push_back({{"name", partition.name},
                      {"elements", partition.elements},
                      {"shard_elements", partition.shard_elements},
                      {"padding_elements", partition.padding_elements},
                      {"persistent", partition.persistent},
                      {"sub_group", partition.sub_group}});
  return result;
}

Json states_json(const ModelStates& states) {
  return {{"p_bytes", states.parameters.count},
          {"g_bytes", states.gradients.count},
          {"os_bytes", states.optimizer_states.count}};
}

Json totals_json(const ModelReport& report) {
  Json result = states_json(report.plan ? report.plan->whole : report.whole);
  result["per_rank"] = states_json(report.plan ? report.plan->per_rank : report.whole);
  if (!report.plan) return result;
  result["per_rank_padding"] = states_json(report.plan->padding);
  if (report.plan->paper) result["per_rank_zero_paper"] = states_json(*report.plan->paper);
  return result;
}

/// What a runtime makes of the model; without one, the keys that scripts rely on are empty.
void add_plan(const ShardingPlan& plan, Json& json) {
  json["runtime"] = name_of(plan.runtime);
  json["strategy"] = plan.strategy;
  json["mesh"] = plan.mesh;
  json["wrap"] = plan.wrap;
  json["precision"] = plan.precision;
  json["world"] = plan.world;
  json["units"] = units_json(plan);
  json["buckets"] = buckets_json(plan);
  json["partitions"] = partitions_json(plan);
}

}  // namespace

ModelReport report_native(NativeScenario scenario) {
  ShardingPlan plan = native_plan(scenario);
  const auto whole = plan.whole;
  return {.model = std::move(scenario.model),
          .whole = whole,
          .plan = std::move(plan),
          .assumed = std::move(scenario.assumed)};
}

ModelReport report_model(Model model, const Optimizer& optimizer,
                         std::vector<std::string> assumed) {
  ModelStates whole = paper_states(model, optimizer, unsharded(Precision::fp32));
  whole.parameters = bytes_of(model.parameter_elements(), Dtype::float32);  // frozen ones too
  return {.model = std::move(model), .whole = whole, .plan = {}, .assumed = std::move(assumed)};
}

std::string to_json(const ModelReport& report) {
  Json json{{"schema", "shardscope.model/1"},
            {"model", model_json(report.model)},
            {"parameters", parameters_json(report.model)},
            {"tied", tied_json(report.model)},
            {"buffers", buffers_json(report.model)},
            {"modules", modules_json(report.model)}};
  if (report.plan) {
    add_plan(*report.plan, json);
  } else {
    for (const char* key : {"units", "buckets", "partitions"}) json[key] = Json::array();
  }
  json["totals"] = totals_json(report);
  json["warnings"] = Json::array();
  if (report.plan)
    for (const PlanWarning& warning : report.plan->warnings)
      json["warnings"].push_back({{"rule", warning.rule}, {"text", warning.text}});
  json["assumed"] = report.assumed;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace shardscope
