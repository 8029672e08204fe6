#include "cli/model_estimate.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/table.h"
#include "core/base/error.h"
#include "core/pytorch/plans/model_size.h"

namespace shardscope {
namespace {

using Json = nlohmann::ordered_json;

std::vector<LoadEstimate> load_estimates_of(const Model& model) {
  return load_estimates(model_sizes(model), {"float32", "float16", "int8", "int4"});
}

std::vector<EstimateRow> state_estimates_of(const EstimateQuestion& question) {
  return estimate_all(estimator_model(tree_of(question.model)), question.cluster);
}

std::string_view yes_or_no(bool value) { return value ? "yes" : "no"; }

/// A row of stage 2 has no such setting.
std::string setting(const EstimateRow& row, bool value) {
  return row.stage == 3 ? std::string(yes_or_no(value)) : "-";
}

std::string deepspeed_text(const EstimateQuestion& question, const Painter& painter) {
  Table table({{"ZeRO stage"},
               {"optimizer on CPU"},
               {"parameters on CPU"},
               {"zero.Init"},
               {"CPU memory of a node", Align::right},
               {"memory of a GPU", Align::right}});
  for (const EstimateRow& row : state_estimates_of(question))
    table.row({fmt::to_string(row.stage), std::string(yes_or_no(row.offload.optimizer)),
               setting(row, row.offload.parameters), setting(row, row.offload.zero_init),
               rounded_text(row.memory.per_node_cpu), rounded_text(row.memory.per_gpu)});
  return fmt::format(
             "DeepSpeed's estimate of model states for {} on {} node{} of {} GPU{}, without "
             "activations\n\n",
             question.name, question.cluster.nodes, question.cluster.nodes == 1 ? "" : "s",
             question.cluster.gpus_per_node, question.cluster.gpus_per_node == 1 ? "" : "s") +
         table.text(painter);
}

std::string accelerate_text(const EstimateQuestion& question) {
  std::string text;
  for (const std::string& line :
       load_estimate_table(question.name, load_estimates_of(question.model)))
    text += line + "\n";
  return text;
}

/// An int4 layer may end in half a byte.
std::int64_t whole_bytes(double bytes) { return static_cast<std::int64_t>(std::ceil(bytes)); }

Json training_json(const LoadEstimate::Training& training) {
  return {{"model_bytes", training.model.count},
          {"optimizer_bytes", training.optimizer.count},
          {"gradients_bytes", training.gradients.count},
          {"step_bytes", training.step.count}};
}

Json accelerate_rows(const Model& model) {
  Json rows = Json::array();
  for (const LoadEstimate& row : load_estimates_of(model))
    rows.push_back({{"dtype", row.dtype},
                    {"largest_layer_bytes", whole_bytes(row.largest_layer)},
                    {"total_bytes", whole_bytes(row.total)},
                    {"training", row.training ? training_json(*row.training) : Json()}});
  return rows;
}

Json deepspeed_rows(const EstimateQuestion& question) {
  Json rows = Json::array();
  for (const EstimateRow& row : state_estimates_of(question)) {
    const bool is_3 = row.stage == 3;
    rows.push_back({{"stage", row.stage},
                    {"offload_optimizer", row.offload.optimizer},
                    {"offload_parameters", is_3 ? Json(row.offload.parameters) : Json()},
                    {"zero_init", is_3 ? Json(row.offload.zero_init) : Json()},
                    {"per_node_cpu_bytes", row.memory.per_node_cpu.count},
                    {"per_gpu_bytes", row.memory.per_gpu.count},
                    {"largest_layer_bytes", is_3 ? Json(row.memory.largest_layer.count) : Json()}});
  }
  return rows;
}

}  // namespace

EstimateTool estimate_tool_of(std::string_view text) {
  if (text == "accelerate") return EstimateTool::accelerate;
  if (text == "deepspeed") return EstimateTool::deepspeed;
  throw Error({.where = "--estimate",
               .what = fmt::format("\"{}\" is none of accelerate, deepspeed", text)});
}

std::string estimate_text(const EstimateQuestion& question, const Painter& painter) {
  return question.tool == EstimateTool::accelerate ? accelerate_text(question)
                                                   : deepspeed_text(question, painter);
}

std::string estimate_json(const EstimateQuestion& question) {
  const bool is_accelerate = question.tool == EstimateTool::accelerate;
  Json estimate{{"tool", is_accelerate ? "accelerate" : "deepspeed"}};
  if (!is_accelerate) {
    estimate["nodes"] = question.cluster.nodes;
    estimate["gpus_per_node"] = question.cluster.gpus_per_node;
  }
  estimate["rows"] = is_accelerate ? accelerate_rows(question.model) : deepspeed_rows(question);
  const Json json{{"schema", "shardscope.model/1"},
                  {"model",
                   {{"family", question.model.family},
                    {"class", question.model.class_name},
                    {"parameter_elements", question.model.parameter_elements()}}},
                  {"estimate", std::move(estimate)}};
  return json.dump(2) + "\n";
}

}  // namespace shardscope
