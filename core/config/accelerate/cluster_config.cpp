#include "core/config/accelerate/cluster_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "core/base/refusal.h"
#include "core/config/values/config_json.h"
#include "core/config/yaml/yaml_reader.h"
#include "core/format/python_text.h"

namespace shardscope::accelerate {
namespace {

struct Field {
  std::string_view name;
  ConfigValue fallback;
  bool required = false;
};

// process_config fills the first five in, so that only SageMaker's own are ever missing.
const std::vector<Field>& base_fields() {
  static const std::vector<Field> fields{{.name = "compute_environment"},
                                         {.name = "distributed_type"},
                                         {.name = "mixed_precision"},
                                         {.name = "use_cpu"},
                                         {.name = "debug"}};
  return fields;
}

const std::vector<Field>& cluster_fields() {
  static const std::vector<Field> fields{{.name = "num_processes", .fallback = -1},
                                         {.name = "machine_rank", .fallback = 0},
                                         {.name = "num_machines", .fallback = 1},
                                         {.name = "gpu_ids"},
                                         {.name = "main_process_ip"},
                                         {.name = "main_process_port"},
                                         {.name = "rdzv_backend", .fallback = "static"},
                                         {.name = "same_network", .fallback = false},
                                         {.name = "main_training_function", .fallback = "main"},
                                         {.name = "enable_cpu_affinity", .fallback = false},
                                         {.name = "fp8_config"},
                                         {.name = "deepspeed_config"},
                                         {.name = "fsdp_config"},
                                         {.name = "parallelism_config"},
                                         {.name = "megatron_lm_config"},
                                         {.name = "mpirun_config"},
                                         {.name = "downcast_bf16", .fallback = false},
                                         {.name = "tpu_name"},
                                         {.name = "tpu_zone"},
                                         {.name = "tpu_use_cluster", .fallback = false},
                                         {.name = "tpu_use_sudo", .fallback = false},
                                         {.name = "command_file"},
                                         {.name = "commands"},
                                         {.name = "tpu_vm"},
                                         {.name = "tpu_env"},
                                         {.name = "dynamo_config"}};
  return fields;
}

const std::vector<Field>& sagemaker_fields() {
  static const std::vector<Field> fields{
      {.name = "ec2_instance_type", .required = true},
      {.name = "iam_role_name", .required = true},
      {.name = "image_uri"},
      {.name = "profile"},
      {.name = "region", .fallback = "us-east-1"},
      {.name = "num_machines", .fallback = 1},
      {.name = "gpu_ids", .fallback = "all"},
      {.name = "base_job_name", .fallback = "accelerate-sagemaker-1"},
      {.name = "pytorch_version", .fallback = "1.10.2"},
      {.name = "transformers_version", .fallback = "4.17.0"},
      {.name = "py_version", .fallback = "py38"},
      {.name = "sagemaker_inputs_file"},
      {.name = "sagemaker_metrics_file"},
      {.name = "additional_args"},
      {.name = "dynamo_config"},
      {.name = "enable_cpu_affinity", .fallback = false}};
  return fields;
}

bool names(const std::vector<Field>& fields, std::string_view key) {
  return std::any_of(fields.begin(), fields.end(), [&](const Field& f) { return f.name == key; });
}

/// Source: BaseConfig.process_config.
ConfigValue processed(ConfigValue given) {
  const auto set_missing = [&](std::string_view key, ConfigValue value) {
    if (!given.has(key)) given.set(key, std::move(value));
  };
  set_missing("compute_environment", "LOCAL_MACHINE");
  if (!given.has("distributed_type"))
    throw Refusal("ValueError", {.where = {},
                                 .what = "distributed_type is missing",
                                 .way_out = "add for example \"distributed_type: FSDP\""});
  if (given.at("distributed_type").is("NO")) set_missing("num_processes", 1);
  set_missing("mixed_precision", given.get("fp16").truthy() ? ConfigValue("fp16") : ConfigValue());
  given.erase("fp16");
  if (const ConfigValue* backend = given.find("dynamo_backend")) {
    ConfigValue config = ConfigValue::dict();
    if (!backend->is("NO")) config.set("dynamo_backend", *backend);
    given.erase("dynamo_backend");
    given.set("dynamo_config", std::move(config));
  }
  set_missing("use_cpu", false);
  set_missing("debug", false);
  set_missing("enable_cpu_affinity", false);
  return given;
}

void refuse_unknown(const ConfigValue& given, const std::vector<Field>& own) {
  std::vector<std::string> unknown;
  int line = 0;
  bool mixed_types = false;
  for (const ConfigValue::Entry& entry : given.entries()) {
    if (entry.key_type == "str" && (names(base_fields(), entry.key) || names(own, entry.key)))
      continue;
    if (unknown.empty()) line = entry.line;
    unknown.push_back(entry.key);
    mixed_types = mixed_types || entry.key_type != "str";
  }
  if (unknown.empty()) return;
  // sorted() of keys of several types fails before the complaint is made.
  const bool sortable = !mixed_types || unknown.size() == 1;
  throw Refusal(sortable ? "ValueError" : "TypeError",
                {.where = {},
                 .what = fmt::format("unknown top-level {}: {}",
                                     unknown.size() > 1 ? "keys" : "key", fmt::join(unknown, ", ")),
                 .way_out = "remove what accelerate does not know"},
                line);
}

void check_member(const ConfigValue& value, std::string_view what,
                  std::span<const std::string_view> members) {
  if (!value.is_string()) return;
  if (std::find(members.begin(), members.end(), value.string()) != members.end()) return;
  throw Refusal("ValueError",
                {.where = {},
                 .what = fmt::format("{} is no {}", python_quoted(value.string()), what),
                 .way_out = fmt::format("known are {}", fmt::join(members, ", "))},
                value.line());
}

constexpr std::array<std::string_view, 2> environments{"LOCAL_MACHINE", "AMAZON_SAGEMAKER"};
constexpr std::array<std::string_view, 14> distributed_types{
    "NO",         "MULTI_CPU",   "MULTI_GPU", "MULTI_NPU",   "MULTI_MLU",
    "MULTI_SDAA", "MULTI_MUSA",  "MULTI_XPU", "DEEPSPEED",   "FSDP",
    "XLA",        "MEGATRON_LM", "MULTI_HPU", "MULTI_NEURON"};
constexpr std::array<std::string_view, 3> sagemaker_types{"NO", "DATA_PARALLEL", "MODEL_PARALLEL"};

/// Source: __post_init__ of the dataclasses.
void finish(LoadedConfig& config) {
  constexpr std::array<std::string_view, 6> dicts{"deepspeed_config",   "fsdp_config",
                                                  "megatron_lm_config", "mpirun_config",
                                                  "fp8_config",         "parallelism_config"};
  ConfigValue& fields = config.fields;
  if (config.is_cluster())
    for (const std::string_view name : dicts)
      if (fields.at(name).is_null()) fields.set(name, ConfigValue::dict());
  check_member(fields.at("compute_environment"), "compute_environment", environments);
  if (fields.at("compute_environment").is("AMAZON_SAGEMAKER"))
    check_member(fields.at("distributed_type"), "distributed_type of SageMaker", sagemaker_types);
  else
    check_member(fields.at("distributed_type"), "distributed_type", distributed_types);
  if (fields.at("dynamo_config").is_null()) fields.set("dynamo_config", ConfigValue::dict());
}

}  // namespace

bool is_cluster_field(std::string_view key) {
  return names(base_fields(), key) || names(cluster_fields(), key);
}

ConfigValue read_config(std::string_view text, std::string_view file_name) {
  return file_name.ends_with(".json") ? read_json(text, file_name) : read_yaml(text, file_name);
}

LoadedConfig load_config(const ConfigValue& file) {
  if (!file.is_dict())
    throw Refusal("AttributeError",
                  {.where = {},
                   .what = fmt::format("the file holds {} instead of a mapping",
                                       file.is_null() ? "nothing" : "a " + file.type_name()),
                   .way_out = "write \"key: value\" lines, as `accelerate config` does"},
                  file.line());
  const ConfigValue* environment = file.find("compute_environment");
  const bool local = environment == nullptr || environment->is("LOCAL_MACHINE");
  LoadedConfig config{.class_name = local ? "ClusterConfig" : "SageMakerConfig"};
  const std::vector<Field>& own = local ? cluster_fields() : sagemaker_fields();
  const ConfigValue given = processed(file);
  refuse_unknown(given, own);
  for (const Field& field : base_fields()) config.fields.set(field.name, given.get(field.name));
  for (const Field& field : own) {
    const ConfigValue* value = given.find(field.name);
    if (value == nullptr && field.required)
      throw Refusal("TypeError", fmt::format("{} is missing", field.name));
    config.fields.set(field.name, value != nullptr ? *value : field.fallback);
  }
  finish(config);
  return config;
}

}  // namespace shardscope::accelerate
