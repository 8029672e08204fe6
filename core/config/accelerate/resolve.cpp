#include "core/config/accelerate/resolve.h"

namespace shardscope::accelerate {
namespace {

bool is_on(const Environment& environment, std::string_view name) {
  return variable(environment, name) == "true";
}

Launch launched(const ResolveRequest& request, const Attempt<LoadedConfig>& loaded) {
  LaunchRequest launch_request{
      .words = request.words, .config = loaded, .shell = request.shell, .machine = request.machine};
  launch_request.words.insert(launch_request.words.end(),
                              {"--config_file", request.file_name, "train.py"});
  return launch(launch_request);
}

}  // namespace

std::optional<std::int64_t> Resolution::world() const {
  if (!launch.arguments) return std::nullopt;
  const ConfigValue processes = launch.arguments->get("num_processes");
  if (!processes.is_integer() || processes.integer() <= 0) return std::nullopt;
  return processes.integer();
}

Resolution resolve(const ResolveRequest& request) {
  Resolution result{.file_name = request.file_name};
  result.file = attempt([&] { return read_config(request.text, request.file_name); });
  if (result.file)
    result.loaded = attempt([&] { return load_config(*result.file.value); });
  else
    result.loaded.error = result.file.error;
  result.launch = launched(request, result.loaded);
  if (result.launch.error) return result;
  const Environment& environment = result.launch.environment;
  if (is_on(environment, "ACCELERATE_USE_FSDP")) {
    result.plugin =
        attempt([&] { return make_fsdp_plugin(environment, request.machine.gpus > 0); });
    if (result.plugin->error) return result;
  }
  const bool names_file = environment.contains("ACCELERATE_DEEPSPEED_CONFIG_FILE");
  if (is_on(environment, "ACCELERATE_USE_DEEPSPEED") && (request.read_file || !names_file)) {
    result.deepspeed_plugin = attempt(
        [&] { return make_deepspeed_plugin(ConfigValue::dict(), environment, request.read_file); });
    if (result.deepspeed_plugin->error) return result;
  }
  if (names_file && !request.read_file) return result;
  if (request.model == nullptr || !result.launch.torchrun || !result.world()) return result;
  result.prepared = attempt([&] {
    return prepare({.environment = environment,
                    .world = *result.world(),
                    .loader_batch_sizes = request.loader_batch_sizes,
                    .read_file = request.read_file,
                    .has_nvidia_ml = request.machine.has_nvidia_ml},
                   *request.model);
  });
  return result;
}

}  // namespace shardscope::accelerate
