#include "core/config/deepspeed/other_models.h"

#include <map>

namespace shardscope {
namespace {

ModelField flag(std::string_view name, bool otherwise) {
  return {.name = name, .kind = FieldKind::boolean, .otherwise = otherwise};
}

ModelField count(std::string_view name, std::int64_t otherwise) {
  return {.name = name, .kind = FieldKind::integer, .otherwise = otherwise};
}

ModelField text(std::string_view name, std::string_view otherwise) {
  return {.name = name, .kind = FieldKind::text, .otherwise = otherwise};
}

ModelField optional_of(FieldKind kind, std::string_view name) {
  return {.name = name, .kind = kind, .nullable = true};
}

ModelField dict(std::string_view name) {
  return {.name = name, .kind = FieldKind::dict, .otherwise = ConfigValue::dict()};
}

ModelField word(std::string_view name, std::vector<std::string_view> words) {
  return {.name = name, .kind = FieldKind::word, .otherwise = words.front(), .words = words};
}

ModelField object(std::string_view name) { return optional_of(FieldKind::object, name); }

PydanticModel file_monitor(std::string_view name) {
  return {.name = name,
          .fields = {flag("enabled", false), text("output_path", ""),
                     text("job_name", "DeepSpeedJobName")}};
}

PydanticModel comet() {
  PydanticModel model{.name = "CometConfig",
                      .fields = {flag("enabled", false), count("samples_log_interval", 100)}};
  for (const char* name :
       {"project", "workspace", "api_key", "experiment_name", "experiment_key", "mode"})
    model.fields.push_back(optional_of(FieldKind::text, name));
  model.fields.push_back(optional_of(FieldKind::boolean, "online"));
  return model;
}

PydanticModel wandb() {
  return {.name = "WandbConfig",
          .fields = {flag("enabled", false), optional_of(FieldKind::text, "group"),
                     optional_of(FieldKind::text, "team"), text("project", "deepspeed")}};
}

PydanticModel comms_logger() {
  return {
      .name = "CommsLoggerConfig",
      .fields = {flag("enabled", false),
                 flag("prof_all", true),
                 {.name = "prof_ops", .kind = FieldKind::list, .otherwise = ConfigValue::list()},
                 flag("verbose", false),
                 flag("debug", false)}};
}

PydanticModel hybrid_engine() {
  return {.name = "HybridEngineConfig",
          .fields = {flag("enabled", false),
                     {.name = "max_out_tokens",
                      .kind = FieldKind::integer,
                      .otherwise = 512,
                      .limits = {.gt = 0}},
                     count("inference_tp_size", 1),
                     flag("release_inference_cache", false),
                     flag("pin_parameters", true),
                     count("tp_gather_partition_size", 8),
                     flag("enable_cuda_graph", false)}};
}

PydanticModel compile() {
  PydanticModel model{.name = "CompileConfig",
                      .fields = {count("free_activation_threshold", 10 * 1024 * 1024)}};
  for (const char* name :
       {"deepcompile", "autoep_non_moe", "free_activation", "offload_activation",
        "offload_opt_states", "symmetric_memory", "debug_log", "offload_parameters",
        "sync_before_reduce", "sync_after_reduce", "sync_before_allgather", "sync_after_allgather",
        "keep_all_input_tensors"})
    model.fields.push_back(flag(name, false));
  for (const char* name :
       {"offload_activation_pin_memory", "double_buffer", "keep_int_input_tensors"})
    model.fields.push_back(flag(name, true));
  model.fields.push_back({.name = "passes",
                          .kind = FieldKind::word_list,
                          .nullable = true,
                          .words = {"z1", "z3", "autosp", "autotp"}});
  return model;
}

PydanticModel weight_quantization() {
  return {.name = "WeightQuantConfig",
          .fields = {flag("enabled", true), count("num_bits", 8),
                     word("q_type", {"symmetric", "asymmetric"}), count("q_groups", 1),
                     dict("quantized_initialization"), dict("post_init_quant")}};
}

PydanticModel throughput() {
  return {.name = "DeepSpeedThroughputTimerConfig",
          .fields = {flag("enabled", true), flag("synchronized", true)}};
}

const PydanticModel& tp_model() {
  static const PydanticModel model{.name = "TPConfig",
                                   .fields = {count("tp_size", 1), count("tp_grain_size", 1),
                                              optional_of(FieldKind::anything, "mpu"),
                                              optional_of(FieldKind::anything, "tp_group")}};
  return model;
}

PydanticModel tensor_parallel() {
  return {.name = "TPTrainingConfig",
          .fields = {object("dtype"),
                     count("autotp_size", 0),
                     flag("tp_overlap_comm", false),
                     optional_of(FieldKind::boolean, "vocab_parallel_lm_head"),
                     word("vocab_parallel_ce_backend", {"torch", "liger"}),
                     {.name = "tp",
                      .field = "tensor_parallel",
                      .kind = FieldKind::model,
                      .otherwise = ConfigValue::dict(),
                      .model = &tp_model()},
                     optional_of(FieldKind::list, "injection_policy_tuple"),
                     optional_of(FieldKind::dict, "partition_config"),
                     optional_of(FieldKind::text, "preset_model"),
                     flag("keep_module_on_host", false),
                     {.name = "kernel_inject",
                      .field = "replace_with_kernel_inject",
                      .kind = FieldKind::boolean,
                      .otherwise = false}}};
}

}  // namespace

const PydanticModel& model_of_section(std::string_view key) {
  static const std::map<std::string_view, PydanticModel> models{
      {"comms_logger", comms_logger()},
      {"tensorboard", file_monitor("TensorBoardConfig")},
      {"wandb", wandb()},
      {"csv_monitor", file_monitor("CSVConfig")},
      {"comet", comet()},
      {"hybrid_engine", hybrid_engine()},
      {"compile", compile()},
      {"weight_quantization", weight_quantization()},
      {"throughput", throughput()},
      {"tensor_parallel", tensor_parallel()},
  };
  return models.at(key);
}

}  // namespace shardscope
