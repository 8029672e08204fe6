#include <fmt/format.h>

#include "core/config/recipe/recipe_keys.h"
#include "core/config/recipe/tools.h"

namespace shardscope::recipes {
namespace {

constexpr LeftOut left_out[] = {
    {"compile", "torch.compile is left out: compiled kernels need less memory"},
    {"fsdp_cpu_offload", "parameters on the host need less device memory"},
    {"fsdp_reshard_after_forward", "units are taken to be resharded after the forward"},
    {"custom_sharded_layers", "layers that are units of their own are left out"},
    {"tensor_parallel_dim", "tensor parallelism is not modelled here"},
    {"tensor_parallel_plan", "tensor parallelism is not modelled here"},
    {"context_parallel_dim", "context parallelism is not modelled here"},
    {"data_parallel_replicate_dim", "all ranks are taken to shard"},
    {"enable_fp8_training", "FP8 is not modelled"},
    {"ac_mode", "every block is taken to be computed again"},
    {"resize_token_embeddings", "added tokens make embedding and head larger"},
    {"quantizer", "quantisation-aware training is not modelled"}};

constexpr std::string_view no_bearing[] = {"output_dir",
                                           "resume_from_checkpoint",
                                           "save_adapter_weights_only",
                                           "save_every_n_steps",
                                           "dataset_val",
                                           "batch_size_val",
                                           "run_val_every_n_steps",
                                           "seed",
                                           "shuffle",
                                           "lr_scheduler",
                                           "epochs",
                                           "max_steps_per_epoch",
                                           "metric_logger",
                                           "log_every_n_steps",
                                           "log_peak_memory_stats",
                                           "log_level",
                                           "device",
                                           "profiler",
                                           "low_cpu_ram",
                                           "enable_async_checkpointing",
                                           "cudnn_deterministic_mode",
                                           "collate_fn",
                                           "activation_offloading_use_streams",
                                           "ac_option",
                                           "fp8_recipe_name",
                                           "context_parallel_rotate_method",
                                           "data_parallel_shard_dim",
                                           "loss_config",
                                           "checkpoint_dir",
                                           "safetensors"};

std::string component(const ConfigValue& section) {
  const ConfigValue name = section.get("_component_");
  return name.is_string() ? name.string() : std::string();
}

void refuse_other_recipes(const Keys& keys) {
  for (const std::string_view key :
       {"rlhf_loss", "kd_loss", "teacher_model", "teacher_checkpointer", "ref_checkpointer",
        "reward_and_value_model", "ppo_epochs", "vllm", "orchestration"})
    if (keys.has(key))
      throw keys.error(key, "belongs to a recipe that is not modelled",
                       "full and lora fine-tuning are");
}

/// output_proj is o_proj in transformers.
std::vector<std::string> targets_of(Keys& model) {
  std::vector<std::string> targets;
  for (const std::string& name : model.names("lora_attn_modules"))
    targets.push_back(name == "output_proj" ? "o_proj" : name);
  if (model.flag("apply_lora_to_mlp", false))
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) targets.emplace_back(name);
  if (model.flag("apply_lora_to_output", false)) targets.emplace_back("lm_head");
  return targets;
}

void read_model(const ConfigValue& section, const std::string& file, Recipe& recipe) {
  Keys model(section, file, "model");
  const std::string name = component(section);
  model.take("_component_");
  const std::string builder = name.substr(name.rfind('.') + 1);
  recipe.model = builder;
  const bool lora = builder.starts_with("lora_") || builder.starts_with("qlora_");
  if (builder.starts_with("qlora_") || model.flag("quantize_base", false)) {
    recipe.quantization = "nf4,double,compute=bfloat16";
    recipe.assumed.emplace_back(
        "torchao's NF4 weights are taken as bitsandbytes' nf4 with double quantisation");
  }
  if (!lora) return;
  LoraArguments arguments{.rank = model.count("lora_rank", 8),
                          .alpha = model.number("lora_alpha", 16),
                          .dropout = model.number("lora_dropout", 0)};
  arguments.targets = targets_of(model);
  arguments.dora = model.flag("use_dora", false);
  recipe.adapter = adapter_of(arguments);
  model.finish({}, {}, {}, "torchtune");
  const std::vector<Finding> findings = model.take_findings();
  recipe.findings.insert(recipe.findings.end(), findings.begin(), findings.end());
}

void read_optimizer(Keys& keys, const ConfigValue& section, Recipe::OwnLoop& loop) {
  const std::string name = component(section);
  if (name == "torch.optim.AdamW" || name == "torch.optim.Adam" || name.empty()) {
    loop.optimizer = name == "torch.optim.Adam" ? "adam" : "adamw";
    loop.implementation = section.get("fused").truthy() ? "fused" : "foreach";
  } else if (name == "torch.optim.SGD") {
    loop.optimizer = "sgd";
    loop.implementation = "foreach";
  } else if (name == "bitsandbytes.optim.PagedAdamW8bit") {
    loop.optimizer = "paged_adamw_8bit";
  } else if (name == "bitsandbytes.optim.AdamW8bit") {
    loop.optimizer = "adamw_8bit";
  } else if (name == "bitsandbytes.optim.PagedAdamW") {
    loop.optimizer = "paged_adamw_32bit";
  } else {
    throw keys.error("optimizer", fmt::format("{} is not modelled", name),
                     "torch.optim.AdamW and bitsandbytes' AdamW8bit and PagedAdamW are");
  }
}

std::string precision_of(Keys& keys) {
  std::string dtype = keys.text("dtype", "fp32");
  if (dtype == "bf16" || dtype == "fp32") return dtype;
  throw keys.error("dtype", fmt::format("{} is not modelled", dtype), "bf16 and fp32 are");
}

/// As --loss takes it. TransformerDecoder makes its logits float32 unless the loss takes them in
/// chunks. Source: torchtune 0.6, modules/transformer.py, modules/loss/ce_chunked_output_loss.py.
/// LinearCrossEntropyLoss, which makes the chunks itself, is taken as CEWithChunkedOutputLoss. It
/// is newer than 0.6: torchtune at bd2a0fc, modules/loss/cross_entropy_loss.py.
std::string loss_of(Keys& keys) {
  const ConfigValue given = keys.take("loss");
  const std::string loss = component(given);
  const bool in_chunks = loss.find("LinearCrossEntropyLoss") != std::string::npos ||
                         loss.find("CEWithChunkedOutputLoss") != std::string::npos;
  if (!in_chunks) return "float";
  constexpr std::int64_t usual = 8;  // num_output_chunks of both
  const ConfigValue chunks = given.get("num_output_chunks");
  const std::int64_t count = chunks.is_integer() ? chunks.integer() : usual;
  return count > 1 ? fmt::format("chunks:{}", count) : "float";
}

}  // namespace

Recipe read_torchtune(const ConfigValue& value, const std::string& file) {
  Keys keys(value, file);
  refuse_other_recipes(keys);
  Recipe recipe;
  Recipe::OwnLoop loop{.runtime = "ddp"};
  loop.precision = precision_of(keys);
  recipe.base_dtype = loop.precision == "bf16" ? Dtype::bfloat16 : Dtype::float32;
  const ConfigValue model = keys.take("model");
  read_model(model, file, recipe);
  // Adapters are made in the dtype of the recipe.
  if (!recipe.adapter.is_null()) recipe.trainable_dtype = recipe.base_dtype;
  loop.batch = keys.count("batch_size", 1);
  loop.micro_batches = keys.count("gradient_accumulation_steps", 1);
  loop.clip = keys.number("clip_grad_norm", 0);
  if (keys.flag("enable_activation_checkpointing", false)) loop.checkpointing = "full";
  loop.offloads_activations = keys.flag("enable_activation_offloading", false);
  loop.steps_in_backward = keys.flag("optimizer_in_bwd", false);
  read_optimizer(keys, keys.take("optimizer"), loop);
  const ConfigValue checkpointer = keys.take("checkpointer");
  if (const ConfigValue folder = checkpointer.get("checkpoint_dir"); folder.is_string())
    recipe.model = folder.string();
  const ConfigValue length = keys.take("tokenizer").get("max_seq_len");
  if (length.is_integer() && length.integer() > 0) recipe.length = length.integer();
  keys.take("dataset");
  recipe.loss = loss_of(keys);
  recipe.assumed.emplace_back("torchtune's modules are taken as those of transformers");
  keys.finish(left_out, no_bearing, {}, "torchtune");
  recipe.findings = by_line(keys.take_findings(), recipe.findings);
  recipe.own_loop = std::move(loop);
  return recipe;
}

}  // namespace shardscope::recipes
