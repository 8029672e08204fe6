#include "core/config/accelerate/launch_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/config/accelerate/python_rules.h"
#include "core/config/values/python_arithmetic.h"
#include "core/format/python_text.h"

namespace shardscope::accelerate {
namespace {

/// How a variable is made of an argument.
struct Variable {
  std::string_view name;
  std::string_view argument;
  bool lower = false;
  bool skips_none = false;  ///< not set where the argument is None; else it becomes "None"
};

void set(Environment& environment, const LaunchArguments& a, std::span<const Variable> variables) {
  for (const Variable& v : variables) {
    const ConfigValue value = a[v.argument];
    if (v.skips_none && value.is_null()) continue;
    environment[std::string(v.name)] = v.lower ? lower_of(value.str()) : value.str();
  }
}

constexpr Variable fsdp_variables[] = {
    {"FSDP_VERSION", "fsdp_version"},
    {"FSDP_SHARDING_STRATEGY", "fsdp_sharding_strategy"},
    {"FSDP_RESHARD_AFTER_FORWARD", "fsdp_reshard_after_forward", true},
    {"FSDP_OFFLOAD_PARAMS", "fsdp_offload_params", true},
    {"FSDP_MIN_NUM_PARAMS", "fsdp_min_num_params"},
    {"FSDP_AUTO_WRAP_POLICY", "fsdp_auto_wrap_policy", false, true},
    {"FSDP_TRANSFORMER_CLS_TO_WRAP", "fsdp_transformer_layer_cls_to_wrap", false, true},
    {"FSDP_BACKWARD_PREFETCH", "fsdp_backward_prefetch", false, true},
    {"FSDP_STATE_DICT_TYPE", "fsdp_state_dict_type", false, true},
    {"FSDP_FORWARD_PREFETCH", "fsdp_forward_prefetch", true},
    {"FSDP_USE_ORIG_PARAMS", "fsdp_use_orig_params", true},
    {"FSDP_CPU_RAM_EFFICIENT_LOADING", "fsdp_cpu_ram_efficient_loading", true},
    {"FSDP_SYNC_MODULE_STATES", "fsdp_sync_module_states", true},
    {"FSDP_ACTIVATION_CHECKPOINTING", "fsdp_activation_checkpointing", true},
    {"FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD", "fsdp_activation_checkpointing_offload", true},
    {"FSDP_IGNORED_MODULES", "fsdp_ignored_modules", false, true},
};

/// MEGATRON_LM_X is megatron_lm_x; the first four are set even where they are None.
constexpr std::string_view megatron_suffixes[] = {"tp_degree",
                                                  "use_custom_fsdp",
                                                  "pp_degree",
                                                  "gradient_clipping",
                                                  "no_load_optim",
                                                  "eod_mask_loss",
                                                  "no_save_optim",
                                                  "optimizer_cpu_offload",
                                                  "use_precision_aware_optimizer",
                                                  "overlap_cpu_optimizer_d2h_h2d",
                                                  "decoder_last_pipeline_num_layers",
                                                  "num_micro_batches",
                                                  "sequence_parallelism",
                                                  "recompute_activations",
                                                  "use_distributed_optimizer",
                                                  "recompute_granularity",
                                                  "recompute_method",
                                                  "recompute_num_layers",
                                                  "attention_backend",
                                                  "expert_model_parallel_size",
                                                  "context_parallel_size",
                                                  "attention_dropout",
                                                  "hidden_dropout",
                                                  "attention_softmax_in_fp32",
                                                  "expert_tensor_parallel_size",
                                                  "calculate_per_token_loss",
                                                  "use_rotary_position_embeddings"};

constexpr Variable deepspeed_variables[] = {
    {"ACCELERATE_DEEPSPEED_ZERO_STAGE", "zero_stage", false, true},
    {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "gradient_accumulation_steps", false, true},
    {"ACCELERATE_GRADIENT_CLIPPING", "gradient_clipping", true, true},
    {"ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", "offload_optimizer_device", true, true},
    {"ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", "offload_param_device", true, true},
    {"ACCELERATE_DEEPSPEED_ZERO3_INIT", "zero3_init_flag", true, true},
    {"ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", "zero3_save_16bit_model", true, true},
    {"ACCELERATE_DEEPSPEED_CONFIG_FILE", "deepspeed_config_file", false, true},
    {"ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES", "deepspeed_moe_layer_cls_names", false, true},
};

constexpr Variable parallelism_variables[] = {
    {"PARALLELISM_CONFIG_DP_REPLICATE_SIZE", "parallelism_config_dp_replicate_size"},
    {"PARALLELISM_CONFIG_DP_SHARD_SIZE", "parallelism_config_dp_shard_size"},
    {"PARALLELISM_CONFIG_TP_SIZE", "parallelism_config_tp_size"},
    {"PARALLELISM_CONFIG_CP_SIZE", "parallelism_config_cp_size"},
    {"PARALLELISM_CONFIG_CP_BACKEND", "parallelism_config_cp_backend"},
    {"PARALLELISM_CONFIG_SP_SIZE", "parallelism_config_sp_size"},
    {"PARALLELISM_CONFIG_SP_BACKEND", "parallelism_config_sp_backend"},
};

constexpr Variable sequence_variables[] = {
    {"PARALLELISM_CONFIG_SP_SEQ_LENGTH", "parallelism_config_sp_seq_length"},
    {"PARALLELISM_CONFIG_SP_SEQ_LENGTH_IS_VARIABLE",
     "parallelism_config_sp_seq_length_is_variable"},
    {"PARALLELISM_CONFIG_SP_ATTN_IMPLEMENTATION", "parallelism_config_sp_attn_implementation"},
};

constexpr Variable dynamo_variables[] = {
    {"ACCELERATE_DYNAMO_MODE", "dynamo_mode"},
    {"ACCELERATE_DYNAMO_USE_FULLGRAPH", "dynamo_use_fullgraph"},
    {"ACCELERATE_DYNAMO_USE_DYNAMIC", "dynamo_use_dynamic"},
    {"ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION", "dynamo_use_regional_compilation"},
};

void set_debug_and_gpus(Environment& environment, const LaunchArguments& a) {
  if (a["debug"].truthy()) environment["ACCELERATE_DEBUG_MODE"] = "true";
  const ConfigValue ids = a["gpu_ids"];
  if (!ids.is_null() && !ids.is("all")) environment["CUDA_VISIBLE_DEVICES"] = ids.str();
}

/// Source: utils/launch.py, setup_fp8_env.
void set_fp8(Environment& environment, const LaunchArguments& a) {
  constexpr std::array<std::string_view, 3> passes{"FPROP", "DGRAD", "WGRAD"};
  for (const ConfigValue::Entry& entry : a.values.entries()) {
    if (!entry.key.starts_with("fp8_") || entry.value.is_null()) continue;
    if (entry.key != "fp8_override_linear_precision") {
      environment["ACCELERATE_" + upper_of(entry.key)] = entry.value.str();
      continue;
    }
    for (std::size_t i = 0; i < passes.size() && entry.value.is_list(); ++i)
      if (i < entry.value.size())
        environment[fmt::format("ACCELERATE_FP8_OVERRIDE_{}", passes[i])] =
            entry.value.elements()[i].str();
  }
}

void set_precision(Environment& environment, const LaunchArguments& a, const Machine& machine) {
  constexpr std::array<std::string_view, 4> known{"no", "fp8", "fp16", "bf16"};
  const ConfigValue given = a["mixed_precision"];
  const std::string precision = lowered(given, "mixed_precision");
  if (std::find(known.begin(), known.end(), precision) == known.end())
    throw Refusal("ValueError",
                  {.where = {},
                   .what = fmt::format("mixed_precision {} is unknown", python_quoted(precision)),
                   .way_out = fmt::format("known are {}", fmt::join(known, ", "))},
                  given.line());
  environment["ACCELERATE_MIXED_PRECISION"] = precision;
  if (precision != "fp8") return;
  if (!machine.has_fp8)
    throw Refusal("RuntimeError",
                  {.where = {},
                   .what = "fp8 needs Transformer Engine, MS-AMP or torchao",
                   .way_out = "install one of them, or train in bf16"},
                  given.line());
  set_fp8(environment, a);
}

void set_dynamo(Environment& environment, const LaunchArguments& a) {
  constexpr std::array<std::string_view, 16> known{"NO",
                                                   "EAGER",
                                                   "AOT_EAGER",
                                                   "INDUCTOR",
                                                   "AOT_TS_NVFUSER",
                                                   "NVPRIMS_NVFUSER",
                                                   "CUDAGRAPHS",
                                                   "OFI",
                                                   "FX2TRT",
                                                   "ONNXRT",
                                                   "TENSORRT",
                                                   "AOT_TORCHXLA_TRACE_ONCE",
                                                   "TORCHXLA_TRACE_ONCE",
                                                   "TVM",
                                                   "HPU_BACKEND",
                                                   "NEURON"};
  const ConfigValue given = a["dynamo_backend"];
  const std::string backend = uppered(given, "dynamo_backend");
  if (std::find(known.begin(), known.end(), backend) == known.end())
    throw Refusal("ValueError",
                  {.where = {},
                   .what = fmt::format("dynamo_backend {} is unknown", python_quoted(backend)),
                   .way_out = fmt::format("known are {}", fmt::join(known, ", "))},
                  given.line());
  environment["ACCELERATE_DYNAMO_BACKEND"] = backend;
  set(environment, a, dynamo_variables);
}

void set_fsdp(Environment& environment, const LaunchArguments& a) {
  environment["ACCELERATE_USE_FSDP"] = "true";
  if (a["fsdp_cpu_ram_efficient_loading"].truthy() && !a["fsdp_sync_module_states"].truthy())
    throw Refusal("ValueError",
                  {.where = {},
                   .what = "fsdp_cpu_ram_efficient_loading is on (it is by default) and "
                           "fsdp_sync_module_states is off",
                   .way_out = "set both, or neither"},
                  a["fsdp_sync_module_states"].line());
  set(environment, a, fsdp_variables);
}

void set_megatron(Environment& environment, const LaunchArguments& a) {
  environment["ACCELERATE_USE_MEGATRON_LM"] = "true";
  for (std::size_t i = 0; i < std::size(megatron_suffixes); ++i) {
    const std::string suffix(megatron_suffixes[i]);
    const ConfigValue value = a["megatron_lm_" + suffix];
    if (i >= 4 && value.is_null()) continue;
    environment["MEGATRON_LM_" + upper_of(suffix)] = value.str();
  }
}

/// Source: utils/launch.py, prepare_extend_env_parallelism_config.
void set_parallelism(Environment& environment, const LaunchArguments& a) {
  environment["ACCELERATE_USE_PARALLELISM_CONFIG"] = "true";
  set(environment, a, parallelism_variables);
  const auto above_one = [&](std::string_view name) { return comparable(a[name], name) > 1; };
  if (above_one("parallelism_config_cp_size"))
    environment["PARALLELISM_CONFIG_CP_COMM_STRATEGY"] =
        a["parallelism_config_cp_comm_strategy"].str();
  if (above_one("parallelism_config_sp_size")) set(environment, a, sequence_variables);
}

void set_affinity(Environment& environment, const LaunchArguments& a) {
  if (a["enable_cpu_affinity"].truthy()) environment["ACCELERATE_CPU_AFFINITY"] = "1";
}

void set_master(Environment& environment, const LaunchArguments& a) {
  const ConfigValue processes = a["num_processes"];
  const bool several_machines = comparable(a["num_machines"], "num_machines") > 1;
  for (const char* name : {"main_process_ip", "main_process_port"})
    if (several_machines && a[name].is_null())
      throw Refusal("AssertionError", fmt::format("several machines need {}", name));
  if (!several_machines && (processes.is_null() || comparable(processes, "num_processes") <= 1))
    return;
  const auto or_else = [&](const char* name, const char* otherwise) {
    return a[name].is_null() ? std::string(otherwise) : a[name].str();
  };
  environment["MASTER_ADDR"] = or_else("main_process_ip", "127.0.0.1");
  environment["MASTER_PORT"] = or_else("main_process_port", "29500");
}

}  // namespace

void set_simple_environment(Environment& environment, const LaunchArguments& a,
                            const Machine& machine) {
  const std::string use_cpu = (a["cpu"].truthy() ? a["cpu"] : a["use_cpu"]).str();
  environment["ACCELERATE_USE_CPU"] = use_cpu;
  set_debug_and_gpus(environment, a);
  set_master(environment, a);
  if (str_to_bool(use_cpu)) {
    environment["KMP_AFFINITY"] = "granularity=fine,compact,1,0";
    environment["KMP_BLOCKTIME"] = "1";
  }
  set_precision(environment, a, machine);
  set_dynamo(environment, a);
  environment["OMP_NUM_THREADS"] = a["num_cpu_threads_per_process"].str();
  set_affinity(environment, a);
}

void set_multi_gpu_environment(Environment& environment, const LaunchArguments& a,
                               const Machine& machine) {
  set_debug_and_gpus(environment, a);
  set_precision(environment, a, machine);
  set_dynamo(environment, a);
  if (a["use_fsdp"].truthy()) set_fsdp(environment, a);
  if (a["use_megatron_lm"].truthy()) set_megatron(environment, a);
  environment["OMP_NUM_THREADS"] = a["num_cpu_threads_per_process"].str();
  set_affinity(environment, a);
  if (a["use_parallelism_config"].truthy()) set_parallelism(environment, a);
}

void set_deepspeed_environment(Environment& environment, const LaunchArguments& a,
                               const Machine& machine, const std::string& from_file) {
  set_debug_and_gpus(environment, a);
  set_precision(environment, a, machine);
  environment["ACCELERATE_CONFIG_DS_FIELDS"] = lower_of(from_file);
  environment["ACCELERATE_USE_DEEPSPEED"] = "true";
  set(environment, a, deepspeed_variables);
  set_affinity(environment, a);
  if (a["use_parallelism_config"].truthy()) set_parallelism(environment, a);
}

}  // namespace shardscope::accelerate
