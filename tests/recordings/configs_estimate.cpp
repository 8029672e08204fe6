// estimate and deepspeed_estimators: what accelerate and DeepSpeed say that a model needs.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/model/family.h"
#include "core/model/huggingface.h"
#include "core/pytorch/plans/deepspeed_estimators.h"
#include "core/pytorch/plans/model_size.h"
#include "tests/recordings/configs.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;

/// Endings of the classes that an AutoModel stands for.
const std::map<std::string, std::vector<std::string>> endings{
    {"AutoModelForCausalLM", {"ForCausalLM", "LMHeadModel"}},
    {"AutoModelForMaskedLM", {"ForMaskedLM"}},
    {"AutoModelForQuestionAnswering", {"ForQuestionAnswering"}},
    {"AutoModelForSeq2SeqLM", {"ForConditionalGeneration"}},
    {"AutoModelForSequenceClassification", {"ForSequenceClassification"}},
    {"AutoModelForTokenClassification", {"ForTokenClassification"}},
};

std::string class_of(const std::string& model_type, const std::string& auto_class) {
  const ModelFamily* family = find_family(model_type);
  if (family == nullptr)
    throw Error({.where = "model_type", .what = "unknown: " + model_type, .way_out = {}});
  for (const std::string_view name : family->classes) {
    if (auto_class.empty() && name.ends_with("Model") && !name.ends_with("HeadModel"))
      return std::string(name);
    const auto found = endings.find(auto_class);
    if (found == endings.end()) continue;
    if (std::any_of(found->second.begin(), found->second.end(),
                    [&](const std::string& ending) { return name.ends_with(ending); }))
      return std::string(name);
  }
  throw Error({.where = auto_class, .what = "no such class of " + model_type, .way_out = {}});
}

Model model_of(const Json& input) {
  const std::string type = input.at("model_type");
  Json config{{"model_type", type}};
  config.update(input.at("config"));
  return model_of_config(
      JsonValue::parse(config.dump(), "config"),
      {.class_name = class_of(type, input.value("auto_class", "")), .dtype = Dtype::float32});
}

Json buffers_of(const Model& model) {
  Json buffers = Json::object();
  for (const ModelBuffer& buffer : model.buffers)
    buffers[buffer.name] =
        Json::array({"torch." + std::string(name_of(buffer.dtype)), buffer.shape});
  return buffers;
}

Json module_bytes_of(const ModelSizes& sizes, std::int64_t depth) {
  Json bytes = Json::object();
  for (const auto& [name, size] : sizes.by_name)
    if (std::count(name.begin(), name.end(), '.') <= depth) bytes[name] = size.count;
  return bytes;
}

/// The command halves ints to floats; without halving they stay ints.
Json number_of(double bytes, const std::string& dtype) {
  return dtype == "float32" ? Json(static_cast<std::int64_t>(bytes)) : Json(bytes);
}

Json row_of(const LoadEstimate& row) {
  Json training{{"model", -1}, {"optimizer", -1}, {"gradients", -1}, {"step", -1}};
  if (row.training)
    training = {{"model", row.training->model.count},
                {"optimizer", row.training->optimizer.count},
                {"gradients", row.training->gradients.count},
                {"step", row.training->step.count}};
  return {{"dtype", row.dtype},
          {"largest_layer", number_of(row.largest_layer, row.dtype)},
          {"total", number_of(row.total, row.dtype)},
          {"training", training}};
}

Json zero2_row(const EstimatorModel& model, const EstimatorCluster& cluster, bool offload) {
  const MemoryEstimate estimate = estimate_zero2(model, cluster, {.optimizer = offload});
  return {{"stage", 2},
          {"cpu_offload", offload},
          {"cpu_bytes", estimate.per_node_cpu.count},
          {"gpu_bytes", estimate.per_gpu.count}};
}

Json zero3_row(const EstimatorModel& model, const EstimatorCluster& cluster,
               const EstimatorOffload& offload) {
  const MemoryEstimate estimate = estimate_zero3(model, cluster, offload);
  return {{"stage", 3},
          {"cpu_offload", offload.optimizer},
          {"cpu_offload_params", offload.parameters},
          {"zero_init", offload.zero_init},
          {"cpu_bytes", estimate.per_node_cpu.count},
          {"gpu_bytes", estimate.per_gpu.count},
          {"largest_layer_bytes", estimate.largest_layer.count}};
}

}  // namespace

Json estimate_result(const Json& input) {
  const Model model = model_of(input);
  const ModelSizes sizes = model_sizes(model);
  const std::vector<LoadEstimate> rows = load_estimates(
      sizes, input.value("dtypes", std::vector<std::string>{"float32", "float16", "int8", "int4"}));
  Json row_list = Json::array();
  for (const LoadEstimate& row : rows) row_list.push_back(row_of(row));
  Json output{{"model_class", model.class_name},
              {"parameters", sizes.parameter_elements},
              {"buffers", buffers_of(model)},
              {"no_split_modules", model.no_split_classes},
              {"total_bytes", sizes.total.count},
              {"largest_layer_bytes", sizes.largest_layer.count},
              {"largest_layers", sizes.largest_layers},
              {"module_bytes", module_bytes_of(sizes, input.value("depth", 0))},
              {"rows", row_list},
              {"table", load_estimate_table("local_model", rows)}};
  Json converted = Json::object();
  for (const Json& bytes : input.value("convert_bytes", Json::array()))
    converted[bytes.dump()] = converted_bytes(bytes.get<double>(), true);
  return {{"output", output}, {"convert_bytes", converted}};
}

Json deepspeed_estimators_result(const Json& input) {
  const EstimatorModel model{.elements = input.at("total_params"),
                             .largest_layer_elements = input.at("largest_layer_params")};
  const EstimatorCluster cluster{
      .gpus_per_node = input.at("gpus_per_node"),
      .nodes = input.at("nodes"),
      .additional_buffer_factor = input.value("additional_buffer_factor", 1.5)};
  Json rows = Json::array({zero2_row(model, cluster, true), zero2_row(model, cluster, false)});
  for (const auto& [optimizer, parameters] : {std::pair{true, true}, {true, false}, {false, false}})
    for (const bool zero_init : {true, false})
      rows.push_back(
          zero3_row(model, cluster,
                    {.optimizer = optimizer, .parameters = parameters, .zero_init = zero_init}));
  return {{"output", rows}};
}

}  // namespace shardscope::recordings
