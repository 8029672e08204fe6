#include "core/config/deepspeed/precision_config.h"

#include <cmath>

#include "core/base/refusal.h"
#include "core/config/deepspeed/pydantic_model.h"
#include "core/config/values/python_number.h"

namespace shardscope {
namespace {

Refusal refused(std::string_view key, std::string expected, const ConfigValue& got) {
  return Refusal("ValidationError",
                 {.where = "fp16." + std::string(key),
                  .what = "expected " + std::move(expected) + ", got " + got.repr(),
                  .way_out = {}});
}

/// _validate_loss_scale: float(value), finite and not negative.
ConfigValue checked_loss_scale(const ConfigValue& value) {
  const Refusal complaint = refused("loss_scale", "a finite number of at least 0", value);
  if (value.is_boolean() || (!value.is_number() && !value.is_string())) throw complaint;
  double scale = 0;
  try {
    scale = value.is_string() ? python_float_of(value.string()) : value.number();
  } catch (const Refusal&) {
    throw complaint;
  }
  if (!std::isfinite(scale) || scale < 0) throw complaint;
  return scale;
}

/// _reject_non_integer_scale_params: what int(value) takes, except bool.
void check_whole(std::string_view key, const ConfigValue& value) {
  const Refusal complaint = refused(key, "a whole number", value);
  if (value.is_boolean() || (!value.is_number() && !value.is_string())) throw complaint;
  if (value.is_double() && !std::isfinite(value.number())) throw complaint;
  try {
    if (value.is_string()) python_integer(value.string());
  } catch (const Refusal&) {
    throw complaint;
  }
}

void check_given(ConfigValue& given) {
  if (ConfigValue* scale = given.find("loss_scale")) *scale = checked_loss_scale(*scale);
  for (const char* key : {"loss_scale_window", "min_loss_scale"})
    if (const ConfigValue* value = given.find(key)) check_whole(key, *value);
}

/// _validate_dynamic_loss_scale_params.
void check_dynamic_scaling(ConfigValue& fp16) {
  if (!fp16.at("enabled").boolean() || fp16.at("loss_scale").number() != 0) return;
  for (const char* key : {"loss_scale_window", "min_loss_scale"})
    if (fp16.at(key).number() <= 0)
      throw Refusal("ValueError", {.where = std::string(key),
                                   .what = "dynamic loss scaling (loss_scale 0) needs more than 0",
                                   .way_out = {}});
}

ModelField flag(std::string_view name, bool otherwise) {
  return {.name = name, .kind = FieldKind::boolean, .otherwise = otherwise};
}

ModelField count(std::string_view name, std::int64_t otherwise) {
  return {.name = name, .kind = FieldKind::integer, .otherwise = otherwise};
}

const PydanticModel& fp16_model() {
  static const PydanticModel model{
      .name = "DeepSpeedFP16Config",
      .fields = {flag("enabled", false),
                 flag("auto_cast", false),
                 {.name = "loss_scale", .kind = FieldKind::number, .otherwise = 0.0},
                 count("initial_scale_power", 16),
                 count("loss_scale_window", 1000),
                 count("hysteresis", 2),
                 flag("consecutive_hysteresis", false),
                 count("min_loss_scale", 1),
                 flag("fp16_master_weights_and_grads", false)},
      .before = check_given,
      .after = check_dynamic_scaling};
  return model;
}

const PydanticModel& bf16_model() {
  static const PydanticModel model{
      .name = "DeepSpeedBF16Config",
      .fields = {flag("enabled", false), flag("immediate_grad_update", false),
                 flag("check_grad_overflow", true), flag("bf16_master_weights_and_grads", false),
                 flag("bf16_optimizer_states", false)}};
  return model;
}

}  // namespace

ConfigValue fp16_config_of(const ConfigValue& config) {
  const ConfigValue* section = config.find("fp16");
  return validated(fp16_model(), section != nullptr ? *section : ConfigValue::dict(), "fp16");
}

ConfigValue bf16_config_of(const ConfigValue& config) {
  const ConfigValue* section = config.find("bf16");
  if (section != nullptr && !section->is_null()) return validated(bf16_model(), *section, "bf16");
  const ConfigValue* old = config.find("bfloat16");
  return validated(bf16_model(), old != nullptr ? *old : ConfigValue::dict(), "bfloat16");
}

}  // namespace shardscope
