// accelerate_yaml: a file, a command line and a shell, through every stage.
#include <fmt/format.h>

#include <map>

#include "core/config/accelerate/launch.h"
#include "core/config/accelerate/lint.h"
#include "core/config/accelerate/prepared.h"
#include "core/config/deepspeed/accelerate_plugin.h"
#include "tests/recordings/configs.h"
#include "tests/recordings/configs_launch.h"
#include "tests/recordings/configs_models.h"
#include "tests/recordings/configs_plain.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace accelerate;

/// The first twelve core values are always told; of the rest, what differs from the parser's.
constexpr std::string_view core_arguments[] = {"num_processes",   "num_machines", "machine_rank",
                                               "mixed_precision", "use_fsdp",     "use_deepspeed",
                                               "multi_gpu",       "tpu",          "cpu",
                                               "use_cpu",         "gpu_ids",      "dynamo_backend"};

Json error_of(const Refusal& refusal) {
  return {{"type", refusal.exception()}, {"message", refusal.what()}};
}

Json loaded_result(const Attempt<LoadedConfig>& loaded) {
  if (loaded.error) return {{"error", error_of(*loaded.error)}};
  Json result{{"class", loaded.value->class_name}};
  for (const ConfigValue::Entry& field : loaded.value->fields.entries())
    if (!field.value.is_null()) result[field.key] = plain(field.value);
  return result;
}

Json arguments_result(const ConfigValue& arguments) {
  const ConfigValue defaults = parse_launch({"train.py"}).values;
  std::map<std::string, Json> shown;
  for (const ConfigValue::Entry& argument : arguments.entries()) {
    const bool is_core = std::find(std::begin(core_arguments), std::end(core_arguments),
                                   argument.key) != std::end(core_arguments);
    if (is_core ||
        (argument.key != "config_file" && !(argument.value == defaults.get(argument.key))))
      shown[argument.key] = plain(argument.value);
  }
  Json result = Json::object();
  for (const auto& [key, value] : shown) result[key] = value;
  return result;
}

Json launch_result(const Launch& launch) {
  Json result = Json::object();
  if (launch.arguments) result["args"] = arguments_result(*launch.arguments);
  if (!launch.launcher.empty()) result["launcher"] = launch.launcher;
  if (launch.error) {
    result["error"] = error_of(*launch.error);
    return result;
  }
  if (launch.torchrun) result["torchrun"] = plain(*launch.torchrun);
  if (!launch.command.empty()) result["command"] = launch.command;
  result["env"] = Json::object();
  for (const auto& [name, value] : shown_environment(launch.environment))
    result["env"][name] = value;
  return result;
}

/// The file and the words as the recorder puts them together.
LaunchRequest request_of(const Json& input) {
  LaunchRequest request;
  if (input.contains("argv")) request.words = input.at("argv").get<std::vector<std::string>>();
  if (input.contains("env"))
    for (const auto& [key, value] : input.at("env").items()) request.shell[key] = value;
  request.machine.gpus = input.value("gpus", 8);
  request.machine.free_port = 54321;
  request.machine.has_nvidia_ml = false;
  const std::string name = input.value("filename", "config.yaml");
  if (input.contains("yaml")) {
    request.config = attempt(
        [&] { return load_config(read_config(input.at("yaml").get<std::string>(), name)); });
    request.words.insert(request.words.end(), {"--config_file", name});
  }
  request.words.emplace_back("train.py");
  return request;
}

bool is_on(const Environment& environment, std::string_view name) {
  return variable(environment, name) == "true";
}

Json changed_fields(const ConfigValue& before, const ConfigValue& after) {
  Json changed = Json::object();
  for (const ConfigValue::Entry& field : after.entries())
    if (!(field.value == before.at(field.key))) changed[field.key] = plain(field.value);
  return changed;
}

/// The fields after set_auto_wrap_policy, the policy with its arguments.
ConfigValue fields_with_policy(const FsdpPlugin& plugin) {
  ConfigValue fields = plugin_fields(plugin);
  fields.set("auto_wrap_policy", auto_wrap_policy(plugin));
  return fields;
}

Json fsdp_plugin_result(const Environment& environment, const PreparedModel& model,
                        bool has_device) {
  FsdpPlugin plugin = make_fsdp_plugin(environment, has_device);
  ConfigValue before = plugin_fields(plugin);
  Json result{{"fields", plain(before)}};
  const std::string precision = variable(environment, "ACCELERATE_MIXED_PRECISION", "no");
  if (precision != "no") {
    set_mixed_precision(plugin, precision);
    result["after_set_mixed_precision"] = changed_fields(before, plugin_fields(plugin));
    before = plugin_fields(plugin);
  }
  try {
    set_auto_wrap_policy(plugin, model.tree, model.facts.no_split_classes);
    result["after_set_auto_wrap_policy"] = changed_fields(before, fields_with_policy(plugin));
  } catch (const Refusal& refusal) {
    result["after_set_auto_wrap_policy"] = {{"error", error_of(refusal)}};
  }
  return result;
}

Json deepspeed_plugin_result(const Environment& environment, const ReadFile& read_file) {
  const DeepSpeedPlugin plugin = make_deepspeed_plugin(ConfigValue::dict(), environment, read_file);
  return {{"fields", plain(plugin.fields())},
          {"deepspeed_config", plain(plugin.deepspeed_config())}};
}

Json calls_result(const std::vector<FullyShardCall>& calls) {
  Json result = Json::array();
  for (const FullyShardCall& call : calls) {
    result.push_back({{"modules", call.modules}});
    if (call.reshard_after_forward)
      result.back()["reshard_after_forward"] = *call.reshard_after_forward;
  }
  return result;
}

Json prepared_result(const Prepared& prepared) {
  Json result{{"distributed_type", prepared.distributed_type},
              {"num_processes", prepared.num_processes},
              {"mixed_precision", prepared.mixed_precision},
              {"gradient_accumulation_steps", prepared.gradient_accumulation_steps}};
  const auto add = [&](const char* name, const std::optional<ConfigValue>& value) {
    if (value) result[name] = plain(*value);
  };
  if (prepared.parallelism) result["parallelism_config"] = plain(prepared.parallelism->sizes());
  add("fsdp1_kwargs", prepared.fsdp1_kwargs);
  add("ddp_kwargs", prepared.ddp_kwargs);
  add("deepspeed_initialize_config", prepared.deepspeed_config);
  if (!prepared.checkpointed_modules.empty())
    result["checkpointed_modules"] = prepared.checkpointed_modules;
  add("fully_shard_shared", prepared.fully_shard_shared);
  if (prepared.fully_shard_shared)
    result["fully_shard_calls"] = calls_result(prepared.fully_shard_calls);
  return result;
}

template <class Action>
bool stage(Json& result, const char* name, Action action) {
  try {
    result[name] = action();
    return true;
  } catch (const Refusal& refusal) {
    result[name] = {{"error", error_of(refusal)}};
    return false;
  }
}

std::vector<std::int64_t> batch_sizes_of(const Json& input) {
  if (!input.contains("batch_size")) return {4};
  if (input.at("batch_size").is_null()) return {};
  return {input.at("batch_size").get<std::int64_t>()};
}

/// The number of processes, where torchrun starts any and the recorder went on.
std::optional<std::int64_t> prepared_world(const Json& input, const Launch& launch) {
  const ConfigValue processes = launch.arguments->get("num_processes");
  if (!launch.torchrun || input.value("no_prepare", false)) return std::nullopt;
  if (!processes.is_integer() && !processes.is_boolean()) return std::nullopt;
  if (processes.integer() <= 0) return std::nullopt;
  return processes.integer();
}

void run_workers(Json& result, const Json& input, const Launch& started) {
  const PreparedModel model = tiny_model(input.value("model", "bert"));
  PrepareRequest request{.environment = shown_environment(started.environment),
                         .read_file = files_of(input),
                         .has_nvidia_ml = false};
  request.loader_batch_sizes = batch_sizes_of(input);
  const Environment& environment = request.environment;
  if (is_on(environment, "ACCELERATE_USE_FSDP") && !stage(result, "plugin", [&] {
        return fsdp_plugin_result(environment, model, request_of(input).machine.gpus > 0);
      }))
    return;
  if (is_on(environment, "ACCELERATE_USE_DEEPSPEED") && !stage(result, "plugin", [&] {
        return deepspeed_plugin_result(environment, request.read_file);
      }))
    return;
  const std::optional<std::int64_t> world = prepared_world(input, started);
  if (!world) return;
  request.world = *world;
  stage(result, "prepared", [&] { return prepared_result(prepare(request, model)); });
}

}  // namespace

std::string accelerate_findings_difference(const Json& input, const Json& recorded) {
  if (!input.contains("yaml")) return {};
  const PreparedModel model = tiny_model(input.value("model", "bert"));
  LaunchRequest words = request_of({{"argv", input.value("argv", Json::array())},
                                    {"env", input.value("env", Json::object())},
                                    {"gpus", input.value("gpus", 8)}});
  words.words.pop_back();  // the script
  const std::string text = input.at("yaml").get<std::string>();
  const Resolution resolution =
      resolve({.file_name = input.value("filename", "config.yaml"),
               .text = text,
               .words = words.words,
               .shell = words.shell,
               .machine = words.machine,
               .model = input.value("no_prepare", false) ? nullptr : &model,
               .loader_batch_sizes = batch_sizes_of(input),
               .read_file = files_of(input)});
  const std::vector<Finding> findings = lint(resolution, text, &model);
  return findings_difference(findings, recorded);
}

Json accelerate_yaml_result(const Json& input) {
  const LaunchRequest request = request_of(input);
  Json result = Json::object();
  if (request.config) result["loaded"] = loaded_result(*request.config);
  const Launch started = launch(request);
  result["launch"] = launch_result(started);
  const bool has_workers = started.torchrun || !started.command.empty();
  if (!started.error && has_workers) run_workers(result, input, started);
  return result;
}

}  // namespace shardscope::recordings
