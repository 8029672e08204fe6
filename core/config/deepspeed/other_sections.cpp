#include "core/config/deepspeed/other_sections.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/base/refusal.h"
#include "core/config/deepspeed/hf_config.h"
#include "core/config/deepspeed/other_models.h"
#include "core/format/python_text.h"

namespace shardscope {
namespace {

Refusal failed(std::string type, std::string where, std::string what) {
  return Refusal(std::move(type),
                 {.where = std::move(where), .what = std::move(what), .way_out = {}});
}

void check_section(const ConfigValue& config, std::string_view key) {
  if (const ConfigValue* section = config.find(key))
    validated(model_of_section(key), *section, key);
}

/// config.get(key, {}) that is asked for a key of its own.
const ConfigValue& section_or_empty(const ConfigValue& config, std::string_view key) {
  static const ConfigValue empty = ConfigValue::dict();
  const ConfigValue* section = config.find(key);
  if (section == nullptr) return empty;
  get_of_dict(*section, {});
  return *section;
}

/// text.upper(), of a key that may be missing.
std::string upper_word(const ConfigValue& section, std::string_view key,
                       std::string_view otherwise) {
  const ConfigValue* value = section.find(key);
  if (value == nullptr) return std::string(otherwise);
  if (!value->is_string())
    throw failed("AttributeError", std::string(key), "expected a word, got " + value->repr());
  return upper_of(value->string());
}

template <std::size_t n>
void require_one_of(const std::string& word, const std::array<std::string_view, n>& words,
                    std::string type, std::string where) {
  if (std::find(words.begin(), words.end(), word) == words.end())
    throw failed(std::move(type), std::move(where), "unknown word \"" + word + "\"");
}

constexpr std::array<std::string_view, 3> tag_modes{"WARN", "IGNORE", "FAIL"};

void check_autotuning(const ConfigValue& config) {
  const ConfigValue& section = section_or_empty(config, "autotuning");
  for (const char* key : {"results_dir", "exps_dir"})
    if (section.has(key) && !section.at(key).truthy())
      throw failed("AssertionError", std::string("autotuning.") + key, "must not be empty");
  const ConfigValue* info = section.find("model_info");
  if (info != nullptr && !info->is_null()) get_of_dict(*info, {});
}

/// get_data_efficiency_config.
void check_data_efficiency(const ConfigValue& config) {
  const ConfigValue& section = section_or_empty(config, "data_efficiency");
  const ConfigValue& sampling = section_or_empty(section, "data_sampling");
  const ConfigValue& curriculum = section_or_empty(sampling, "curriculum_learning");
  if (curriculum.get("enabled").truthy() && !curriculum.has("curriculum_metrics"))
    throw failed("AssertionError", "data_efficiency.data_sampling.curriculum_learning",
                 "enabled without curriculum_metrics");
  const ConfigValue& batching = section_or_empty(sampling, "dynamic_batching");
  if (batching.get("enabled").truthy() && !batching.has("max_tokens"))
    throw failed("AssertionError", "data_efficiency.data_sampling.dynamic_batching",
                 "enabled without max_tokens");
  section_or_empty(section_or_empty(section, "data_routing"), "random_ltd");
}

/// get_checkpoint_config.
void check_checkpoint_writer(const ConfigValue& config) {
  const ConfigValue* section = config.find("checkpoint");
  if (section == nullptr || section->is_null()) return;
  const ConfigValue writer = section->get("writer");
  if (writer.is_null()) return;
  get_of_dict(writer, {});
  constexpr std::array<std::string_view, 3> types{"MOCK", "PYTHON", "FAST"};
  constexpr std::array<std::string_view, 3> units{"REPLICA", "SOCKET", "MACHINE"};
  if (!writer.get("type").is_null())
    require_one_of(upper_word(writer, "type", "FAST"), types, "AssertionError",
                   "checkpoint.writer.type");
  if (!writer.get("data_parallel").is_null())
    require_one_of(upper_word(writer, "data_parallel", "REPLICA"), units, "AssertionError",
                   "checkpoint.writer.data_parallel");
}

void check_timers(const ConfigValue& config) {
  const ConfigValue* timers = config.find("timers");
  if (timers == nullptr) return;
  if (!timers->is_dict() && !timers->is_list() && !timers->is_string())
    throw failed("TypeError", "timers", "expected a section with keys, got " + timers->repr());
  check_section(*timers, "throughput");
}

/// parse_autoep_config.
void check_expert_parallel(const ConfigValue& config) {
  const ConfigValue* section = config.find("expert_parallel");
  if (section == nullptr || !section->truthy()) return;
  if (!get_of_dict(*section, "load_balance_coeff").is_null())
    throw failed("ValueError", "expert_parallel.load_balance_coeff", "is not supported");
}

}  // namespace

void check_monitors(const ConfigValue& config) {
  check_section(config, "comms_logger");
  for (const char* key : {"tensorboard", "wandb", "csv_monitor", "comet"}) {
    const ConfigValue* section = config.find(key);
    if (section == nullptr || section->is_dict() || section->is("auto")) continue;
    // The four are fields of one model, so that a wrong kind is its ValidationError.
    throw failed("ValidationError", key, "expected a section with keys, got " + section->repr());
  }
  for (const char* key : {"tensorboard", "wandb", "csv_monitor", "comet"})
    if (const ConfigValue* section = config.find(key); section != nullptr && section->is_dict())
      check_section(config, key);
}

ConfigValue flops_profiler_enabled(const ConfigValue& config) {
  const ConfigValue* enabled = section_or_empty(config, "flops_profiler").find("enabled");
  return enabled != nullptr ? *enabled : ConfigValue(false);
}

void check_tuning_and_data(const ConfigValue& config) {
  check_autotuning(config);
  check_section(config, "hybrid_engine");
  section_or_empty(config, "pipeline");
  check_data_efficiency(config);
}

void check_checkpoint(const ConfigValue& config) {
  const ConfigValue& section = section_or_empty(config, "checkpoint");
  require_one_of(upper_word(section, "tag_validation", "WARN"), tag_modes, "DeepSpeedConfigError",
                 "checkpoint.tag_validation");
}

void check_engine_sections(const ConfigValue& config) {
  const ConfigValue& checkpoint = section_or_empty(config, "checkpoint");
  const ConfigValue* stage = section_or_empty(checkpoint, "parallel_write").find("pipeline_stage");
  if (stage != nullptr && !(*stage == ConfigValue(true)) && !(*stage == ConfigValue(false)))
    throw failed("DeepSpeedConfigError", "checkpoint.parallel_write.pipeline_stage",
                 "expected true or false, got " + stage->repr());
  const ConfigValue* aio = config.find("aio");
  if (aio != nullptr && !aio->is_null()) get_of_dict(*aio, {});
  check_checkpoint_writer(config);
  check_section(config, "weight_quantization");
  check_section(config, "compile");
  check_timers(config);
  check_section(config, "tensor_parallel");
  check_expert_parallel(config);
}

}  // namespace shardscope
