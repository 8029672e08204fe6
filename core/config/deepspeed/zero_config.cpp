#include "core/config/deepspeed/zero_config.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/base/refusal.h"
#include "core/config/deepspeed/zenflow_config.h"
#include "core/pytorch/runtimes/deepspeed/settings.h"

namespace shardscope {
namespace {

constexpr FieldLimits positive{.gt = 0};
constexpr FieldLimits not_negative{.ge = 0};
constexpr FieldLimits share{.ge = 0, .le = 1};
constexpr std::int64_t half_a_billion = 500'000'000;
constexpr std::int64_t billion = 1'000'000'000;

ModelField flag(std::string_view name, bool otherwise) {
  return {.name = name, .kind = FieldKind::boolean, .otherwise = otherwise};
}

ModelField count(std::string_view name, std::int64_t otherwise, FieldLimits limits = not_negative) {
  return {.name = name, .kind = FieldKind::integer, .otherwise = otherwise, .limits = limits};
}

/// A field whose JSON name is "stage3_" and its Python name.
ModelField stage3(ModelField field, std::string_view python_name) {
  field.field = python_name;
  return field;
}

ModelField device() {
  return {.name = "device",
          .kind = FieldKind::word,
          .otherwise = "none",
          .words = {"none", "cpu", "nvme"}};
}

ModelField nvme_path() { return {.name = "nvme_path", .kind = FieldKind::path, .nullable = true}; }

ModelField fraction(std::string_view name, double otherwise) {
  return {.name = name, .kind = FieldKind::number, .otherwise = otherwise, .limits = share};
}

ModelField section(std::string_view name, const PydanticModel& model) {
  return {.name = name, .kind = FieldKind::model, .nullable = true, .model = &model};
}

ConfigValue on_cpu(const PydanticModel& model, const ConfigValue& wanted) {
  if (!wanted.truthy()) return {};
  return validated(model, ConfigValue::dict({{"device", "cpu"}}), "");
}

ModelField old_flag(std::string_view name, Deprecation deprecation) {
  return {.name = name, .kind = FieldKind::boolean, .nullable = true, .deprecation = deprecation};
}

ModelField cpu_offload_param() {
  return old_flag("cpu_offload_param", {.new_field = "offload_param",
                                        .new_json_name = "offload_param",
                                        .new_field_name = "offload_param",
                                        .converted = [](const ConfigValue& wanted) {
                                          return on_cpu(offload_param_model(), wanted);
                                        }});
}

ModelField cpu_offload() {
  return old_flag("cpu_offload", {.new_field = "offload_optimizer",
                                  .new_json_name = "offload_optimizer",
                                  .new_field_name = "offload_optimizer",
                                  .converted = [](const ConfigValue& wanted) {
                                    return on_cpu(offload_optimizer_model(), wanted);
                                  }});
}

ModelField gather_fp16_weights() {
  ModelField field = flag("stage3_gather_fp16_weights_on_model_save", false);
  field.deprecation = Deprecation{.new_field = "stage3_gather_16bit_weights_on_model_save",
                                  .new_json_name = "stage3_gather_16bit_weights_on_model_save",
                                  .new_field_name = "gather_16bit_weights_on_model_save"};
  return field;
}

ModelField leaf_module() {
  return {.name = "leaf_module",
          .kind = FieldKind::model,
          .otherwise = ConfigValue::dict(),
          .model = &leaf_module_model()};
}

std::vector<ModelField> zero_fields() {
  return {
      {.name = "stage", .kind = FieldKind::whole_choice, .otherwise = 0, .limits = {.le = 3}},
      flag("contiguous_gradients", true),
      flag("reduce_scatter", true),
      count("reduce_bucket_size", half_a_billion, positive),
      flag("use_multi_rank_bucket_allreduce", true),
      flag("allgather_partitions", true),
      count("allgather_bucket_size", half_a_billion),
      {.name = "overlap_comm", .kind = FieldKind::boolean, .nullable = true},
      flag("compute_grad_norm", true),
      flag("load_from_fp32_weights", true),
      flag("elastic_checkpoint", false),
      section("offload_param", offload_param_model()),
      section("offload_optimizer", offload_optimizer_model()),
      section("zenflow", zenflow_model()),
      count("sub_group_size", billion),
      cpu_offload_param(),
      old_flag("cpu_offload_use_pin_memory", {.new_field = "offload_param or offload_optimizer"}),
      cpu_offload(),
      stage3(count("stage3_prefetch_bucket_size", 50'000'000), "prefetch_bucket_size"),
      stage3(count("stage3_param_persistence_threshold", 100'000), "param_persistence_threshold"),
      stage3(count("stage3_model_persistence_threshold", std::numeric_limits<std::int64_t>::max()),
             "model_persistence_threshold"),
      stage3(count("stage3_max_live_parameters", billion), "max_live_parameters"),
      stage3(count("stage3_max_reuse_distance", billion), "max_reuse_distance"),
      stage3(flag("stage3_gather_16bit_weights_on_model_save", false),
             "gather_16bit_weights_on_model_save"),
      stage3(count("stage3_module_granularity_threshold", 0, {}), "module_granularity_threshold"),
      stage3(flag("stage3_use_all_reduce_for_fetch_params", false),
             "use_all_reduce_for_fetch_params"),
      stage3(flag("stage3_allgather_sequential", false), "allgather_sequential"),
      gather_fp16_weights(),
      flag("ignore_unused_parameters", true),
      flag("legacy_stage1", false),
      flag("round_robin_gradients", false),
      flag("parameter_alignment", false),
      count("zero_hpz_partition_size", 1),
      flag("zero_quantized_weights", false),
      flag("zero_quantized_nontrainable_weights", false),
      flag("zero_quantized_gradients", false),
      flag("memory_efficient_linear", true),
      flag("pipeline_loading_checkpoint", false),
      flag("override_module_apply", true),
      flag("log_trace_cache_warnings", false),
      flag("enable_sanity_checks", false),
      flag("save_muon_momentum_buffer_in_memory", false),
      leaf_module(),
  };
}

/// _coerce_container_types of leaf_module, which raises past pydantic.
void open_leaf_module(ConfigValue& given) {
  ConfigValue* leaf = given.find("leaf_module");
  if (leaf == nullptr || leaf->is_dict()) return;
  if (!leaf->is_null())
    throw Refusal("TypeError", {.where = "leaf_module",
                                .what = "expected a section with keys, got " + leaf->repr(),
                                .way_out = "write { \"classes\": [...] }"});
  *leaf = ConfigValue::dict();
}

/// The validators of DeepSpeedZeroConfig: overlap_comm_valid, compute_grad_norm_valid,
/// offload_ratio_check.
void check_zero(ConfigValue& zero) {
  const std::int64_t stage = zero.at("stage").integer();
  if (zero.at("overlap_comm").is_null()) zero.set("overlap_comm", overlaps_by_default(stage));
  if (!zero.at("compute_grad_norm").boolean() && stage != 1 && stage != 2)
    throw Refusal("ValueError", {.where = "compute_grad_norm",
                                 .what = "false goes only with ZeRO stage 1 or 2",
                                 .way_out = "drop it"});
  const ConfigValue& offload = zero.at("offload_optimizer");
  if (offload.is_dict() && offload.at("ratio").number() < 1 && stage != 3)
    throw Refusal("AssertionError", {.where = "offload_optimizer.ratio",
                                     .what = "partial offloading goes only with ZeRO stage 3",
                                     .way_out = "drop it"});
}

/// read_zero_config_deprecated.
ConfigValue section_of_flag(const ConfigValue& config, bool enabled) {
  ConfigValue section = ConfigValue::dict({{"stage", enabled ? 1 : 0}});
  if (!enabled) return section;
  const ConfigValue* size = config.find("allgather_size");
  section.set("allgather_bucket_size", size != nullptr ? *size : ConfigValue(5e8));
  return section;
}

}  // namespace

const PydanticModel& offload_param_model() {
  static const PydanticModel model{
      .name = "DeepSpeedZeroOffloadParamConfig",
      .fields = {device(), nvme_path(), count("buffer_count", 5), count("buffer_size", 100'000'000),
                 count("max_in_cpu", billion), flag("pin_memory", true)}};
  return model;
}

const PydanticModel& offload_optimizer_model() {
  static const PydanticModel model{
      .name = "DeepSpeedZeroOffloadOptimizerConfig",
      .fields = {device(), nvme_path(), count("buffer_count", 4), flag("pin_memory", true),
                 flag("pipeline_read", false), flag("pipeline_write", false),
                 flag("fast_init", false), fraction("ratio", 1.0), flag("super_offload", false),
                 fraction("cpuadam_cores_perc", 0.8)}};
  return model;
}

const PydanticModel& zero_model() {
  static const PydanticModel model{.name = "DeepSpeedZeroConfig",
                                   .fields = zero_fields(),
                                   .before = open_leaf_module,
                                   .after = check_zero};
  return model;
}

ConfigValue zero_config_of(const ConfigValue& config, std::vector<std::string>* warnings) {
  const ConfigValue* section = config.find("zero_optimization");
  if (section == nullptr)
    return validated(zero_model(), ConfigValue::dict(), "zero_optimization", warnings);
  if (!section->is_boolean())
    return validated(zero_model(), *section, "zero_optimization", warnings);
  if (warnings != nullptr)
    warnings->push_back("zero_optimization as true or false is deprecated; give a section");
  return validated(zero_model(), section_of_flag(config, section->boolean()), "zero_optimization",
                   warnings);
}

}  // namespace shardscope
