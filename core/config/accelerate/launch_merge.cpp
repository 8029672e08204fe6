#include "core/config/accelerate/launch_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/config/accelerate/python_rules.h"

namespace shardscope::accelerate {
namespace {

bool on(const LaunchArguments& arguments, std::string_view name) {
  return arguments[name].truthy();
}

/// Refusals that look at the command line alone.
void check_command_line(const LaunchArguments& a) {
  int kinds = 0;
  for (const char* kind : {"multi_gpu", "cpu", "tpu", "use_deepspeed", "use_fsdp"})
    kinds += on(a, kind) ? 1 : 0;
  if (kinds > 1)
    throw Refusal(
        "ValueError",
        "only one of --cpu, --multi_gpu, --tpu, --use_deepspeed, --use_fsdp may be given");
  if (on(a, "multi_gpu") && !a["num_processes"].is_null() &&
      comparable(a["num_processes"], "num_processes") < 2)
    throw Refusal("ValueError", "--multi_gpu needs at least 2 processes");
  if (!on(a, "use_fsdp") && on(a, "use_parallelism_config"))
    throw Refusal("ValueError", "--use_parallelism_config needs --use_fsdp and --fsdp_version 2");
}

bool chooses_kind(const LaunchArguments& a) {
  for (const char* kind :
       {"multi_gpu", "tpu", "tpu_use_cluster", "use_deepspeed", "use_fsdp", "use_megatron_lm"})
    if (on(a, kind)) return true;
  return false;
}

constexpr std::array<std::string_view, 8> multi_device_types{
    "MULTI_GPU",  "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA",
    "MULTI_MUSA", "MULTI_XPU", "MULTI_HPU", "MULTI_NEURON"};

void take_kind(LaunchArguments& a, const LoadedConfig& config) {
  const ConfigValue& type = config.fields.at("distributed_type");
  const bool multi_device = std::any_of(multi_device_types.begin(), multi_device_types.end(),
                                        [&](std::string_view name) { return type.is(name); });
  a.values.set("use_deepspeed", type.is("DEEPSPEED"));
  a.values.set("multi_gpu", multi_device);
  a.values.set("tpu", type.is("XLA"));
  a.values.set("use_fsdp", type.is("FSDP"));
  a.values.set("use_megatron_lm", type.is("MEGATRON_LM"));
  a.values.set("tpu_use_cluster",
               type.is("XLA") ? config.fields.get("tpu_use_cluster") : ConfigValue(false));
  if (!config.is_cluster())
    throw Refusal("AttributeError",
                  "a SageMaker configuration has no parallelism_config; accelerate "
                  "1.15.0 cannot launch it");
  a.values.set("use_parallelism_config",
               !(config.fields.at("parallelism_config") == ConfigValue::dict()));
}

void check_gpu_ids(LaunchArguments& a, const LoadedConfig& config) {
  if (a["gpu_ids"].is_null()) {
    const ConfigValue ids = config.fields.get("gpu_ids");
    a.values.set("gpu_ids", ids.is_null() ? ConfigValue("all") : ids);
  }
  if (on(a, "multi_gpu") && a["num_machines"].is_null())
    a.values.set("num_machines", config.fields.get("num_machines"));
  const ConfigValue ids = a["gpu_ids"];
  if (!ids.is_string())
    throw Refusal("AttributeError",
                  {.where = {},
                   .what = fmt::format("gpu_ids must be a text, got {}", ids.repr()),
                   .way_out = "put it in quotes"},
                  ids.line());
  const bool single = ids.string().find(',') == std::string::npos;
  if (single && !ids.is("all") && on(a, "multi_gpu") &&
      comparable(a["num_machines"], "num_machines") <= 1)
    throw Refusal("ValueError",
                  {.where = {},
                   .what = "gpu_ids names one GPU, but the run is to use several",
                   .way_out = "name at least two, or \"all\""},
                  ids.line());
}

std::string prefixed(std::string_view section, const ConfigValue::Entry& entry) {
  struct Rule {
    std::string_view section, start, prefix;
  };
  constexpr std::array<Rule, 3> rules{Rule{"fsdp_config", "fsdp", "fsdp_"},
                                      Rule{"fp8_config", "fp8", "fp8_"},
                                      Rule{"dynamo_config", "dynamo_", "dynamo_"}};
  for (const Rule& rule : rules) {
    if (rule.section != section) continue;
    if (entry.key_type != "str")
      throw Refusal("AttributeError",
                    {.where = {},
                     .what = fmt::format("the key {} of {} is no text", entry.key, section),
                     .way_out = {}},
                    entry.line);
    return (entry.key.starts_with(rule.start) ? "" : std::string(rule.prefix)) + entry.key;
  }
  if (entry.key_type != "str")
    throw Refusal("TypeError",
                  {.where = {},
                   .what = fmt::format("the key {} of {} is no text", entry.key, section),
                   .way_out = {}},
                  entry.line);
  return entry.key;
}

/// Members of sections beat the parser's defaults but not what was typed; other fields only fill
/// what is None.
void take_fields(LaunchArguments& a, const LoadedConfig& config) {
  for (const ConfigValue::Entry& field : config.fields.entries()) {
    if (field.value.is_dict()) {
      for (const ConfigValue::Entry& member : field.value.entries()) {
        const std::string name = prefixed(field.key, member);
        if (!a.given.contains(name)) a.values.set(name, member.value);
      }
    } else if (field.key != "compute_environment" && field.key != "mixed_precision" &&
               field.key != "distributed_type" && a[field.key].is_null()) {
      a.values.set(field.key, field.value);
    }
  }
}

void take_config(MergedArguments& merged, const LoadedConfig& config) {
  LaunchArguments& a = merged.arguments;
  if (!chooses_kind(a)) take_kind(a, config);
  check_gpu_ids(a, config);
  if (config.fields.at("compute_environment").is("LOCAL_MACHINE")) take_fields(a, config);
  if (!on(a, "debug")) a.values.set("debug", config.fields.at("debug"));
  if (!on(a, "mixed_precision")) {
    const ConfigValue& precision = config.fields.at("mixed_precision");
    merged.precision_from_file = !precision.is_null();
    a.values.set("mixed_precision", precision.is_null() ? ConfigValue("no") : precision);
  }
  if (a["dynamo_backend"].is_null()) a.values.set("dynamo_backend", "no");
  if (a["num_processes"] == ConfigValue(-1))
    throw Refusal("ValueError", {.where = {},
                                 .what = "num_processes is missing, and accelerate does not count "
                                         "the GPUs where there is a file",
                                 .way_out = "add \"num_processes: N\" or give --num_processes N"});
}

void take_machine(MergedArguments& merged, const Machine& machine) {
  LaunchArguments& a = merged.arguments;
  const auto guess = [&](std::string_view name, ConfigValue value) {
    if (!a[name].is_null()) return;
    merged.warnings.push_back(fmt::format("{} was not given: {}", name, value.str()));
    a.values.set(name, std::move(value));
  };
  guess("num_processes", machine.gpus);
  if (a["debug"].is_null()) a.values.set("debug", false);
  if (!on(a, "multi_gpu") && comparable(a["num_processes"], "num_processes") > 1 &&
      machine.gpus > 1) {
    merged.warnings.push_back("more than one GPU was found: multi_gpu is on");
    a.values.set("multi_gpu", true);
  }
  guess("num_machines", 1);
  guess("mixed_precision", "no");
  if (!a.values.has("use_cpu")) a.values.set("use_cpu", a["cpu"]);
  guess("dynamo_backend", "no");
}

/// Half of what the CPUs allow, where no OMP_NUM_THREADS says otherwise.
void take_threads(MergedArguments& merged, const Environment& shell, const Machine& machine) {
  LaunchArguments& a = merged.arguments;
  if (!a["num_cpu_threads_per_process"].is_null()) return;
  a.values.set("num_cpu_threads_per_process", integer_variable(shell, {"OMP_NUM_THREADS"}, 1));
  if (!on(a, "use_cpu") || comparable(a["num_processes"], "num_processes") < 1 ||
      integer_variable(shell, {"OMP_NUM_THREADS"}, 0) != 0)
    return;
  const double machines = comparable(a["num_machines"], "num_machines");
  if (machines == 0) throw Refusal("ZeroDivisionError", "num_machines is 0");
  const auto local = static_cast<std::int64_t>(
      std::max(std::trunc(comparable(a["num_processes"], "num_processes") / machines), 1.0));
  const std::int64_t local_size = integer_variable(
      shell, {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"}, local);
  if (local_size == 0) throw Refusal("ZeroDivisionError", "the number of local ranks is 0");
  const std::int64_t threads = machine.physical_cores / local_size;
  if (threads <= 1) return;
  a.values.set("num_cpu_threads_per_process", threads);
  merged.warnings.push_back(fmt::format("num_cpu_threads_per_process was set to {}", threads));
}

}  // namespace

MergedArguments merge_arguments(LaunchArguments arguments,
                                const std::optional<Attempt<LoadedConfig>>& config,
                                const Environment& shell, const Machine& machine) {
  MergedArguments merged{.arguments = std::move(arguments)};
  check_command_line(merged.arguments);
  if (config && config->error) throw *config->error;
  if (config)
    take_config(merged, *config->value);
  else
    take_machine(merged, machine);
  if (!config || config->value->is_cluster()) take_threads(merged, shell, machine);
  return merged;
}

}  // namespace shardscope::accelerate
