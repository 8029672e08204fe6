#include <fmt/format.h>

#include <algorithm>

#include "core/config/recipe/recipe_keys.h"
#include "core/config/recipe/tools.h"

namespace shardscope::recipes {
namespace {

constexpr std::string_view no_bearing[] = {"out_dir",     "data", "eval",         "log",
                                           "logger_name", "seed", "access_token", "resume"};

constexpr std::string_view no_bearing_in_train[] = {
    "save_interval", "log_interval", "lr_warmup_steps", "lr_warmup_fraction",
    "epochs",        "max_tokens",   "max_steps",       "max_time",
    "min_lr",        "max_norm",     "tie_embeddings"};

constexpr std::string_view adapter_keys[] = {"lora_r",          "lora_alpha", "lora_dropout",
                                             "lora_query",      "lora_key",   "lora_value",
                                             "lora_projection", "lora_mlp",   "lora_head"};

bool is_lora(const Keys& keys) {
  return std::any_of(std::begin(adapter_keys), std::end(adapter_keys),
                     [&](std::string_view key) { return keys.has(key); });
}

/// The names of Llama's modules in transformers. litgpt keeps query, key and value in one.
void read_adapter(Keys& keys, Recipe& recipe) {
  LoraArguments lora{.rank = keys.count("lora_r", 8),
                     .alpha = keys.number("lora_alpha", 16),
                     .dropout = keys.number("lora_dropout", 0.05)};
  const bool query = keys.flag("lora_query", true), key = keys.flag("lora_key", false);
  const bool value = keys.flag("lora_value", true);
  const bool projection = keys.flag("lora_projection", false);
  const bool mlp = keys.flag("lora_mlp", false), head = keys.flag("lora_head", false);
  const std::pair<bool, const char*> targets[] = {
      {query, "q_proj"},  {key, "k_proj"},  {value, "v_proj"},  {projection, "o_proj"},
      {mlp, "gate_proj"}, {mlp, "up_proj"}, {mlp, "down_proj"}, {head, "lm_head"}};
  for (const auto& [on, name] : targets)
    if (on) lora.targets.emplace_back(name);
  if (lora.targets.empty())
    throw keys.error("lora_query", "no layer has an adapter", "write lora_query: true");
  recipe.adapter = adapter_of(lora);
  recipe.assumed.emplace_back(
      "litgpt's fused query, key and value are taken as the three layers of transformers");
}

std::string quantization_of(Keys& keys, std::int64_t ranks) {
  const std::string kind = keys.text("quantize", "");
  if (kind.empty()) return {};
  if (ranks > 1)
    throw keys.error("quantize", "litgpt refuses quantised weights on several GPUs",
                     "write devices: 1 and num_nodes: 1");
  if (kind == "bnb.nf4") return "nf4";
  if (kind == "bnb.nf4-dq") return "nf4,double";
  if (kind == "bnb.fp4") return "fp4";
  if (kind == "bnb.fp4-dq") return "fp4,double";
  throw keys.error("quantize", fmt::format("{} is not modelled", kind),
                   "bnb.nf4, bnb.nf4-dq, bnb.fp4 and bnb.fp4-dq are");
}

std::string precision_of(Keys& keys, bool quantized) {
  const std::string precision = keys.text("precision", "bf16-mixed");
  if (quantized && precision.find("mixed") != std::string::npos)
    throw keys.error("precision", "litgpt refuses mixed precision with quantised weights",
                     "write bf16-true");
  if (precision == "bf16-true") return "bf16";
  if (precision == "bf16-mixed") return "bf16_mixed";
  if (precision == "32-true") return "fp32";
  throw keys.error("precision", fmt::format("{} is not modelled", precision),
                   "bf16-true, bf16-mixed and 32-true are");
}

void read_optimizer(Keys& keys, const ConfigValue& given, bool quantized, Recipe::OwnLoop& loop) {
  const ConfigValue path = given.is_dict() ? given.get("class_path") : given;
  const std::string name = path.is_string() ? path.string() : "AdamW";
  if (name != "AdamW" && name != "torch.optim.AdamW" && name != "torch.optim.adamw.AdamW")
    throw keys.error("optimizer", fmt::format("{} is not modelled", name), "AdamW is");
  // instantiate_bnb_optimizer: bitsandbytes' PagedAdamW.
  loop.optimizer = quantized ? "paged_adamw_32bit" : "adamw";
  if (!quantized) loop.implementation = "foreach";
}

/// 1 to 2^20; "auto" is what is there.
std::int64_t devices_of(Keys& keys) {
  const ConfigValue devices = keys.take("devices");
  if (devices.is("auto")) return 1;
  return std::min<std::int64_t>(keys.count("devices", 1), 1 << 20) *
         std::min<std::int64_t>(keys.count("num_nodes", 1), 1 << 16);
}

void read_train(Keys& keys, const std::string& file, std::int64_t ranks, bool lora, Recipe& recipe,
                Recipe::OwnLoop& loop) {
  const ConfigValue section = keys.take("train");
  Keys train(section, file, "train");
  loop.batch = train.count("micro_batch_size", 1);
  const std::int64_t global = train.count("global_batch_size", 16);
  loop.micro_batches = global / ranks / loop.batch;
  if (loop.micro_batches < 1)
    throw train.error("global_batch_size",
                      fmt::format("{} sequences are less than {} ranks x micro_batch_size {}",
                                  global, ranks, loop.batch),
                      "raise it, or lower micro_batch_size");
  if (train.has("max_seq_length")) recipe.length = train.count("max_seq_length", 1);
  recipe.assumed.emplace_back("every sequence has max_seq_length tokens");
  train.finish({}, no_bearing_in_train, {}, "litgpt");
  recipe.findings = train.take_findings();
  // lora.py has FSDP2, full.py FSDP1; both compute blocks again.
  if (ranks > 1) loop.checkpointing = "full";
  loop.runtime = ranks == 1 ? "ddp" : lora ? "fsdp2" : "fsdp1";
}

}  // namespace

Recipe read_litgpt(const ConfigValue& value, const std::string& file) {
  Keys keys(value, file);
  Recipe recipe;
  recipe.model = keys.text("checkpoint_dir", "");
  const std::int64_t ranks = devices_of(keys);
  recipe.world = ranks;
  keys.take("num_nodes");
  const bool lora = is_lora(keys);
  recipe.quantization = quantization_of(keys, ranks);
  const bool quantized = !recipe.quantization.empty();
  Recipe::OwnLoop loop;
  loop.precision = precision_of(keys, quantized);
  recipe.base_dtype = loop.precision == "bf16" ? Dtype::bfloat16 : Dtype::float32;
  if (lora) {
    read_adapter(keys, recipe);
    recipe.trainable_dtype = recipe.base_dtype;
  } else if (quantized) {
    throw keys.error("quantize", "only lora.py takes quantised weights", "add lora_r");
  }
  read_optimizer(keys, keys.take("optimizer"), quantized, loop);
  read_train(keys, file, ranks, lora, recipe, loop);
  recipe.assumed.emplace_back("litgpt's modules are taken as those of transformers");
  keys.finish({}, no_bearing, {}, "litgpt");
  recipe.findings = by_line(keys.take_findings(), recipe.findings);
  recipe.own_loop = std::move(loop);
  return recipe;
}

}  // namespace shardscope::recipes
