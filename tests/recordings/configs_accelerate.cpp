// accelerate_yaml: a file, a command line and a shell, through every stage.
#include <fmt/format.h>

#include <map>

#include "core/config/accelerate/launch.h"
#include "tests/recordings/configs.h"
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

Json error_of(const Raised& raised) {
  return {{"type", raised.type()}, {"message", raised.what()}};
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

bool is_shown(std::string_view name) {
  constexpr std::string_view prefixes[] = {
      "FSDP_", "ACCELERATE_", "PARALLELISM_CONFIG_", "MEGATRON_LM_", "XLA_", "KMP_", "NCCL_"};
  constexpr std::string_view names[] = {"OMP_NUM_THREADS", "MASTER_ADDR", "MASTER_PORT",
                                        "CUDA_VISIBLE_DEVICES", "MIXED_PRECISION"};
  for (const std::string_view prefix : prefixes)
    if (name.starts_with(prefix)) return true;
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Environment shown_environment(const Environment& environment) {
  Environment shown;
  for (const auto& [name, value] : environment)
    if (is_shown(name)) shown[name] = value;
  return shown;
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
  const std::string name = input.value("filename", "config.yaml");
  if (input.contains("yaml")) {
    request.config = attempt(
        [&] { return load_config(read_config(input.at("yaml").get<std::string>(), name)); });
    request.words.insert(request.words.end(), {"--config_file", name});
  }
  request.words.emplace_back("train.py");
  return request;
}

}  // namespace

Json accelerate_yaml_result(const Json& input) {
  const LaunchRequest request = request_of(input);
  Json result = Json::object();
  if (request.config) result["loaded"] = loaded_result(*request.config);
  const Launch started = launch(request);
  result["launch"] = launch_result(started);
  return result;
}

}  // namespace shardscope::recordings
