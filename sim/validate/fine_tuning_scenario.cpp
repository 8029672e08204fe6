#include "sim/validate/fine_tuning_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/config/megatron/model_shape.h"
#include "core/pytorch/plans/transformers_facts.h"
#include "core/pytorch/runtimes/training/requested_setup.h"
#include "sim/hardware/builtin_profiles.h"
#include "sim/validate/fine_tuning_stack.h"
#include "sim/validate/known_model.h"
#include "sim/validate/published_words.h"
#include "sim/validate/sample_lengths.h"
#include "sim/validate/unsloth_notebooks.h"

namespace shardscope {
namespace {

/// Cards by a word of their name. What is not a profile of its own has the figures of a near one,
/// with its own memory and capability. Source of memory: what the CUDA driver reports, MiB.
struct Card {
  std::string_view word, profile;
  std::int64_t mib = 0;  ///< 0: the profile's
  int capability = 0;
};
constexpr std::array<Card, 33> cards{{{"A800", "a800_80gb"},
                                      {"MI300X", "mi300x"},
                                      {"SXM4-40GB", "a100_40gb"},
                                      {"A100-40GB", "a100_40gb"},
                                      {"A100 40GB", "a100_40gb"},
                                      {"A100", "a100_80gb"},
                                      {"H100", "h100_sxm"},
                                      {"H200", "h200_sxm"},
                                      {"B200", "b200_sxm"},
                                      {"L40S", "l40s"},
                                      {"4090", "rtx4090"},
                                      {"V100", "v100_sxm"},
                                      {"A10G", "a10g"},
                                      {"3090", "rtx3090"},
                                      {"T4", "t4"},
                                      {"A6000 Ada", "l40s", 48677, 89},
                                      {"A6000", "rtx_a6000"},
                                      {"4070 Ti SUPER", "rtx4070_ti_super"},
                                      {"H800", "h100_sxm"},
                                      {"A4000", "rtx_a6000", 16384},
                                      {"A40", "rtx_a6000", 45618},
                                      {"A10", "a10g"},
                                      {"5090", "rtx4090", 32100, 120},
                                      {"L40", "l40s"},
                                      {"L4", "a10g", 22693, 89},
                                      {"12 GB", "rtx4090", 12288, 89},
                                      {"16 GB", "rtx4090", 16384, 89},
                                      {"24 GB", "rtx4090", 24576, 89},
                                      {"24GB", "rtx4090", 24576, 89},
                                      {"40 GB", "a100_40gb"},
                                      {"40GB", "a100_40gb"},
                                      {"48GB", "l40s"},
                                      {"80GB", "a100_80gb"}}};

const Card* card_of(std::string_view gpu) {
  static constexpr Card usual{"", "a100_80gb"};
  if (gpu.empty() || has_word(gpu, "unstated")) return &usual;
  const auto found = std::ranges::find_if(
      cards, [&](const Card& card) { return gpu.find(card.word) != std::string_view::npos; });
  return found == cards.end() ? nullptr : &*found;
}

/// "280 W limit" of "RTX 3090 24GB (PCIe, 280 W limit)".
std::optional<double> stated_power_limit(std::string_view gpu) {
  const std::size_t at = gpu.find(" W limit");
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t begin = gpu.find_last_not_of("0123456789", at - 1) + 1;
  double watts = 0;
  std::from_chars(gpu.data() + begin, gpu.data() + at, watts);
  return watts > 0 ? std::optional(watts) : std::nullopt;
}

/// Source: Hugging Face, Model training anatomy: "the kernels alone take up 1.3GB of GPU memory",
/// 1343 MiB by NVML after the first tensor.
void load_all_kernels(HardwareProfile& profile, std::vector<std::string>& assumed) {
  constexpr Bytes context{1343LL << 20};
  profile.context_memory = context;
  assumed.emplace_back("all kernels are loaded with the context");
}

/// fsdp_qlora's two RTX 3090 sit on "an older motherboard" with "slow PCI lanes"
/// (benchmarks_03_2024.md). Such boards of processors without PCIe 4 give two cards 8 lanes of
/// PCIe 3 each.
void narrow_lanes(HardwareProfile& profile, std::vector<std::string>& assumed) {
  constexpr int generation = 3;
  constexpr double half_of_the_lanes = 0.5;
  if (!profile.node) return;
  profile.node->pcie_generation = generation;
  profile.node->efficiency *= half_of_the_lanes;
  assumed.emplace_back("8 lanes of PCIe 3 for each card");
}

HardwareProfile profile_of(const Card& card, std::string_view gpu,
                           std::vector<std::string>& assumed) {
  HardwareProfile profile = find_hardware_profile(card.profile, "gpu");
  if (const auto watts = stated_power_limit(gpu); watts && profile.gpu)
    profile.gpu->power_limit = {*watts};
  assumed.push_back(fmt::format("figures of {}", card.profile));
  if (card.mib > 0) profile.memory = Bytes{card.mib << 20};
  if (card.capability > 0) profile.compute_capability = card.capability;
  return profile;
}

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

constexpr std::string_view preference = " DPO";
bool learns_preferences(const FineTuningRow& row) { return row.method.ends_with(preference); }

/// "lora" of "lora DPO".
std::string_view trained_part(const FineTuningRow& row) {
  std::string_view method = row.method;
  if (learns_preferences(row)) method.remove_suffix(preference.size());
  return method;
}

bool is_adalora(const FineTuningRow& row) { return trained_part(row) == "adalora"; }
bool is_lora(const FineTuningRow& row) {
  return trained_part(row) == "lora" || trained_part(row) == "qlora" || is_adalora(row);
}
/// Files of axolotl at 067b021c with `load_in_8bit: true`, which their rows do not say. Of the
/// first one experts are modules, whose linear layers bitsandbytes takes.
bool is_in_8_bits(const FineTuningRow& row) {
  return holds(row.source, "axolotl") && holds(row.source, "lfm2-8b-a1b-lora");
}
bool has_other_experts_in_8_bits(const FineTuningRow& row) {
  return holds(row.source, "axolotl") &&
         (holds(row.source, "glm47-flash/lora") || holds(row.source, "kimi-48b-lora"));
}

bool is_quantized(const FineTuningRow& row) {
  return trained_part(row) == "qlora" || holds(row.precision, "nf4") ||
         holds(row.precision, "4bit") || is_in_8_bits(row);
}

bool stack_is_unsloth(const FineTuningRow& row) {
  const FineTuningStack* stack = fine_tuning_stack(row.source);
  return stack != nullptr && stack->unsloth;
}

/// axolotl's README has had this file's figure since 130ef7c5 (2025-08-15), when the file asked for
/// chunked_cross_entropy. Cut cross entropy came two months later (ab63b92c).
bool chunks_cross_entropy(const FineTuningRow& row) {
  return holds(row.source, "LiquidAI/lfm2-350m-fft");
}

/// Notes say so of files as they are. Of examples/mimo and examples/trinity the plug-in is
/// commented out ("CCE - N/A as of now"). The figure of magistral-small-qlora is older (eac4a61f,
/// 2025-06-12) than the plug-in in its file.
bool cuts_cross_entropy(const FineTuningRow& row) {
  return holds(row.notes, "cut cross entropy") && !holds(row.source, "examples/mimo/") &&
         !holds(row.source, "examples/trinity/") &&
         !holds(row.source, "magistral/magistral-small-qlora") && !chunks_cross_entropy(row);
}

/// axolotl's mistral-small-3.1-24B-lora.yml: sample_packing and pad_to_sequence_len are false.
bool has_short_samples(const FineTuningRow& row) {
  return (holds(row.notes, "not packed") && !stack_is_unsloth(row)) ||
         holds(row.source, "mistral-small-3.1-24B-lora");
}

bool offloads_activations(const FineTuningRow& row) {
  return holds(row.notes, "activation_offloading");
}

bool is_packed(const FineTuningRow& row) {
  return holds(row.precision, "GPTQ") || holds(row.model, "GPTQ") || holds(row.model, "AWQ");
}
bool in_float16(const FineTuningRow& row) { return row.precision.starts_with("fp16"); }

/// torchtune's table turns one setting more on in each row: 2 torch.compile, 3 chunks of the loss,
/// 4 checkpointing, 5 the optimizer in the backward, 6 activations on the host, 7 another
/// optimizer, 8 LoRA, which leaves out the fifth. 0: no row of it.
constexpr int compiled_from = 2, chunks_from = 3, steps_in_backward_from = 5, offloads_from = 6;
int ablation_step(const FineTuningRow& row) {
  return holds(row.notes, "each row adds") ? number_after(row.notes, "step ").value_or(0) : 0;
}

bool is_compiled(const FineTuningRow& row) {
  return holds(row.precision, "compile") || holds(row.notes, "torch.compile") ||
         ablation_step(row) >= compiled_from;
}

/// torchtitan did not compile its loss from 2024-12-18 (e8977b00) to 2025-04-02 (bbb1b616). The row
/// names no day, but a nightly build of PyTorch 2.7, which was made in that time.
bool has_eager_loss(const FineTuningRow& row, const FineTuningStack& stack) {
  return stack.torchtitan && holds(row.notes, "torch 2.7.0a0");
}

/// torchtune and torchtitan compile each layer and the loss, others the model. torchtune's recipes
/// of November 2024 (1814feb17) drop what compile_loss returns: only a loss in chunks, which it
/// changes in place, is compiled.
CompileScope compile_scope(const FineTuningRow& row, const FineTuningStack& stack) {
  if (has_eager_loss(row, stack) || ablation_step(row) == compiled_from)
    return CompileScope::blocks;
  return stack.float_logits || stack.torchtitan ? CompileScope::blocks_and_loss
                                                : CompileScope::model;
}

/// litgpt's own adapters.
bool is_prompt_adapter(const FineTuningRow& row) {
  if (row.method != "adapter" && row.method != "adapter_v2") return false;
  const FineTuningStack* stack = fine_tuning_stack(row.source);
  return stack != nullptr && stack->prompt_adapters;
}

std::string why_other_method(const FineTuningRow& row) {
  const FineTuningStack* stack = fine_tuning_stack(row.source);
  const bool torchao = holds(row.precision, "float8") && stack != nullptr && stack->torchtitan;
  if (holds(row.precision, "FP8") || (holds(row.precision, "float8") && !torchao))
    return "FP8 is not modelled here";
  if (has_other_experts_in_8_bits(row))
    return "its file loads experts in 8 bits, which is not modelled";
  if (row.method.ends_with(" GRPO"))
    return "GRPO's generation of completions, on the same GPU, is not modelled";
  if (is_adalora(row) && (stack == nullptr || stack->adalora_rank == 0))
    return "the ranks of AdaLoRA are not known";
  if (!is_lora(row) && !is_prompt_adapter(row) && trained_part(row) != "full" &&
      row.method != "full (pre-training step)")
    return fmt::format("the method {} is not modelled", row.method);
  if (has_short_samples(row))
    return "samples are shorter than the stated length, by how much is not stated";
  if (holds(row.notes, "galore") || holds(row.notes, "lisa") || holds(row.source, "/galore/") ||
      holds(row.source, "/lisa/"))
    return "the optimizer is not modelled";
  return {};
}

/// Packed weights that are stored as bfloat16 are partitioned like other parameters: PEFT's
/// docs/source/accelerate/deepspeed.md, bnb_4bit_quant_storage_dtype.
bool partitions_quantized(const FineTuningRow& row, const FineTuningStack& stack) {
  return holds(row.strategy, "ZeRO-3") && !is_packed(row) && stack.storage == Dtype::bfloat16;
}

/// "full: 2 * 70GiB 0.61s/it # lora: 2 * 14GiB 0.45s/it": the first figure is the row's.
bool is_figure_of_whole_model(const FineTuningRow& row) { return holds(row.notes, "\"full: "); }

/// Megatron-LM with tensor or expert parallelism alone trains a whole model, or adapters.
bool by_megatron(const FineTuningRow& row, const FineTuningStack& stack) {
  const bool divided = number_after(row.strategy, "TP=").value_or(0) > 0 ||
                       number_after(row.strategy, "EP=").value_or(0) > 0;
  return stack.runs_megatron && (row.method == "full" || row.method == "lora") && row.gpus &&
         holds(row.strategy, "Megatron") && divided && !holds(row.strategy, "PP=") &&
         !holds(row.strategy, "CP=");
}

std::string why_other_strategy(const FineTuningRow& row, const FineTuningStack& stack) {
  if (by_megatron(row, stack)) return {};
  for (const std::string_view word : {"Megatron", "sequence parallel", "TP", "EP", "pp-"})
    if (holds(row.strategy, word)) return fmt::format("the strategy \"{}\"", row.strategy);
  if (holds(row.strategy, "ZeRO") && is_quantized(row) &&
      !(is_packed(row) && holds(row.strategy, "ZeRO-2")) && !partitions_quantized(row, stack))
    return "a quantised base under DeepSpeed is not modelled";
  if (holds(row.strategy, "ZeRO") && holds(row.strategy, "offload"))
    return "offload of DeepSpeed is not modelled with adapters";
  if (holds(row.strategy, "sync_each_batch")) return "its model and lengths are not stated";
  return {};
}

/// "r=32", "lora_r=32" and "lora_r 32" of the notes.
std::int64_t rank_of(const FineTuningRow& row, const FineTuningStack& stack) {
  for (const std::string_view word : {"lora_r=", "lora_r ", "r="})
    if (const auto rank = number_after(row.notes, word); rank && *rank > 0) return *rank;
  return stack.rank;
}

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const std::size_t plus = std::min(list.find('+'), list.size());
    if (plus > 0) names.emplace_back(list.substr(0, plus));
    list.remove_prefix(std::min(plus + 1, list.size()));
  }
  return names;
}

bool is_gemma_of_litgpt(const FineTuningRow& row) {
  return holds(row.notes, "config_hub/finetune/gemma");
}

/// "targets=v_proj+q_proj" of the notes; litgpt's configs of small models adapt every layer.
std::string targets_of(const FineTuningRow& row, const FineTuningStack& stack) {
  constexpr std::string_view key = "targets=";
  if (const std::size_t at = row.notes.find(key); at != std::string::npos) {
    const std::size_t begin = at + key.size();
    return row.notes.substr(begin, row.notes.find_first_of(" ;", begin) - begin);
  }
  // lora_target_modules:
  // 'model.layers.[\d]+.(mlp|cross_attn|self_attn).(up|down|gate|q|k|v|o)_proj', of which LFM2's
  // layers have three.
  if (is_in_8_bits(row)) return "q_proj+k_proj+v_proj";
  // peft/utils/constants.py, TRANSFORMERS_MODELS_TO_ADALORA_TARGET_MODULES_MAPPING, of llama.
  if (holds(row.notes, "q,v") || is_adalora(row)) return "q_proj+v_proj";
  if (holds(row.notes, "config_hub/finetune/tiny-llama") ||
      holds(row.notes, "config_hub/finetune/phi") || is_gemma_of_litgpt(row))
    return "all-linear";
  return std::string(stack.targets);
}

/// config_hub/finetune/gemma-2b/lora.yaml and its neighbours: lora_dropout.
double dropout_of(const FineTuningRow& row, const FineTuningStack& stack) {
  constexpr double of_gemma = 0.1;
  return is_gemma_of_litgpt(row) ? of_gemma : stack.dropout;
}

LoraConfig adapter_of(const FineTuningRow& row, const FineTuningStack& stack,
                      std::string_view family) {
  LoraConfig lora{.rank = is_adalora(row) ? stack.adalora_rank : rank_of(row, stack),
                  .dropout = dropout_of(row, stack),
                  .converts_targets = false,
                  .adaptive_rank = is_adalora(row),
                  .trains_rank_count = false};
  const std::string targets = targets_of(row, stack);
  lora.all_linear = targets == "all-linear";
  if (!lora.all_linear) lora.targets.names = split(targets);
  // Unsloth's notebooks for raw text name embed_tokens and lm_head among target_modules.
  if (stack.unsloth && holds(row.source, "Text_Completion"))
    lora.modules_to_save = {"embed_tokens", "lm_head"};
  // Qwen's "LoRA (emb)" trains embedding and head beside the adapters.
  if (row.notes.starts_with("LoRA (emb)")) lora.modules_to_save = {"wte", "lm_head"};
  if (family == "gpt_neox" && !lora.all_linear) lora.targets.names = {"query_key_value"};
  return lora;
}

eager::LitgptLora litgpt_lora_of(const FineTuningRow& row, const FineTuningStack& stack) {
  const bool all = targets_of(row, stack) == "all-linear";
  return {.rank = rank_of(row, stack),
          .dropout = dropout_of(row, stack),
          .key = all,
          .projection = all,
          .mlp = all,
          .head = all};
}

bool is_of(const FineTuningRow& row, std::string_view part) {
  return !part.empty() && holds(row.source, part);
}

bool is_recent(const FineTuningRow& row, const FineTuningStack& stack) {
  return is_of(row, stack.recent_part);
}

/// Before weights got one segment, and a loss that copies logits without the last token's.
bool is_before_4_50(const FineTuningRow& row, const FineTuningStack& stack) {
  return stack.before_4_50 ||
         std::ranges::any_of(stack.parts_before_4_50,
                             [&](std::string_view part) { return holds(row.source, part); });
}

/// transformers 4.46 to 4.49, loss_utils.py: ForCausalLMLoss makes logits float32, and copies them.
eager::LanguageLoss loss_of(const FineTuningRow& row, const FineTuningStack& stack) {
  return stack.parts_before_4_50.empty() || !is_before_4_50(row, stack)
             ? stack.loss
             : eager::LanguageLoss::floated;
}

/// None: samples are as long as the row says, or nothing else is known of them.
std::optional<SampleLengths> shorter_samples(const FineTuningRow& row) {
  return holds(row.notes, "seq is a cap") ? sample_lengths(row.source) : std::nullopt;
}

/// "max_steps 60; grad_accum 4" of the notes; else as many as ms-swift's scripts take samples.
int micro_batches_of_run(const FineTuningRow& row) {
  constexpr int usual = 1000;
  const auto steps = number_after(row.notes, "max_steps ");
  const auto of_step = number_after(row.notes, "grad_accum ");
  return steps && of_step && *steps > 0 && *of_step > 0 ? std::min(*steps * *of_step, usual)
                                                        : usual;
}

/// padding_free: samples of a micro-batch stand behind each other, and none is filled up. The
/// longest micro-batch of the run counts.
void take_tokens(const FineTuningRow& row, megatron::Settings& settings) {
  settings.shape.seq = *row.seq;
  settings.micro_batch = *row.micro_batch;
  const auto samples = shorter_samples(row);
  if (!samples) return;
  settings.shape.seq =
      greatest_sum(*samples, row.seq, settings.micro_batch, micro_batches_of_run(row));
  settings.micro_batch = 1;
}

/// What ms-swift gives Megatron-LM, and its examples with tensor parallelism: --sequence_parallel.
megatron::Settings megatron_settings(const FineTuningRow& row, const FineTuningStack& stack,
                                     const JsonValue& config) {
  megatron::Settings settings;
  take_tokens(row, settings);
  megatron::take_model(config, settings);
  settings.world = static_cast<int>(*row.gpus);
  settings.tensor = number_after(row.strategy, "TP=").value_or(1);
  settings.expert = number_after(row.strategy, "EP=").value_or(1);
  settings.sequence_parallel = settings.tensor > 1;
  settings.distributed_optimizer = true;
  settings.optimizer_on_host = holds(row.source, "offload");  // --optimizer_cpu_offload true
  settings.global_batch = 2 * settings.micro_batch * settings.data();
  settings.attention = megatron::Attention::flash;
  settings.compiled_loss = true;  // --cross_entropy_loss_fusion true; cross_entropy_fusion_impl
  settings.recompute = holds(row.checkpointing, "full")        ? megatron::Recompute::full
                       : holds(row.checkpointing, "selective") ? megatron::Recompute::selective
                                                               : megatron::Recompute::none;
  if (row.method == "lora" && !is_figure_of_whole_model(row))
    settings.adapters = {.rank = rank_of(row, stack),
                         // --modules_to_save word_embeddings output_layer
                         .trains_embeddings = holds(row.source, "lora/loss_scale") ||
                                              holds(row.source, "lora/new_special_tokens")};
  megatron::check(settings, {.otherwise = "the row"});
  return settings;
}

Dtype dtype_of_base(const FineTuningRow& row) {
  return in_float16(row) ? Dtype::float16 : Dtype::bfloat16;
}

Quantization quantization_of(const FineTuningRow& row, const FineTuningStack& stack) {
  if (is_packed(row))
    return {.kind = holds(row.model, "AWQ") ? QuantizationKind::awq : QuantizationKind::gptq,
            .compute_dtype = Dtype::float16};
  if (is_in_8_bits(row)) return {.kind = QuantizationKind::int8};
  return {.kind = QuantizationKind::nf4,
          .double_quantization = stack.double_quantization || holds(row.precision, "nf4-dq"),
          .compute_dtype = stack.unsloth ? dtype_of_base(row) : Dtype::bfloat16,
          .storage_dtype = stack.storage,
          .keeps_inputs = stack.keeps_inputs && !is_recent(row, stack)};
}

/// Whether every block is computed again.
bool checkpoints(const FineTuningRow& row, const FineTuningStack& stack) {
  const std::string_view text = row.checkpointing;
  if (is_of(row, stack.checkpointed_part)) return true;
  return text.starts_with("on") || text == "FSDP block" || text == "recompute full" ||
         text == "unsloth";
}

bool by_deepspeed(const FineTuningRow& row, const FineTuningStack& stack) {
  return holds(row.strategy, "ZeRO") || (stack.full_by_deepspeed && !is_lora(row));
}

ShardingStrategy sharding_of(const FineTuningRow& row, const FineTuningStack& stack) {
  if (by_deepspeed(row, stack) && !holds(row.strategy, "ZeRO")) return ShardingStrategy::full_shard;
  if (holds(row.strategy, "ZeRO-3")) return ShardingStrategy::full_shard;
  if (holds(row.strategy, "ZeRO-2")) return ShardingStrategy::shard_grad_op;
  if (holds(row.strategy, "no_shard") || !holds(row.strategy, "FSDP"))
    return ShardingStrategy::no_shard;
  return ShardingStrategy::full_shard;
}

Runtime runtime_of(const FineTuningRow& row, const FineTuningStack& stack) {
  if (by_deepspeed(row, stack)) return Runtime::deepspeed;
  if (sharding_of(row, stack) == ShardingStrategy::no_shard) return Runtime::ddp;
  if (holds(row.strategy, "FSDP2")) return Runtime::fsdp2;
  return stack.flattens || holds(row.strategy, "FSDP1") ? Runtime::fsdp1 : Runtime::fsdp2;
}

eager::OptimizerSettings optimizer_of(const FineTuningRow& row, bool by_trainer) {
  eager::OptimizerSettings optimizer;
  optimizer.rule = eager::OptimizerRule::adamw;
  const std::string& name = row.optimizer;
  const bool paged = holds(name, "aged");  // PagedAdamW, paged_adamw_8bit
  if (holds(name, "8bit") || holds(name, "bnb") || paged)
    optimizer.bitsandbytes = eager::BitsAndBytesOptimizer{
        .bits = holds(name, "8bit") ? 8 : 32, .paged = paged, .embeddings_in_float = by_trainer};
  else if (holds(name, "fused"))
    optimizer.implementation = eager::OptimizerImplementation::fused;
  return optimizer;
}

/// "grad_accum 4", "grad accumulation 8", "ga 2" of the notes. What is kept over micro-batches is
/// there from the second on. Under FSDP's no_sync the third one adds to whole gradients of all
/// layers, as all but the last do.
int micro_batches_of(const FineTuningRow& row, const FineTuningStack& stack) {
  const int most = holds(row.strategy, "FSDP") ? 3 : 2;
  for (const std::string_view word : {"grad_accum ", "grad accumulation ", "ga "})
    if (const auto number = number_after(row.notes, word); number && *number > 0)
      return std::min(*number, most);
  return std::min(stack.micro_batches, most);
}

std::vector<std::string> blocks_of(const Model& model) {
  std::vector<std::string> names;
  for (const Module& module : model.modules)
    if (std::ranges::find(model.no_split_classes, module.class_name) !=
        model.no_split_classes.end())
      names.push_back(module.name);
  return names;
}

/// Puts together what row and stack say.
class Builder {
 public:
  explicit Builder(const FineTuningRow& row)
      : row_(row),
        stack_(*fine_tuning_stack(row.source)),
        known_(*known_model(row.model, stack_.model)),
        base_(with_dtype(known_.model, stack_.torchtitan ? Dtype::float32 : dtype_of_base(row))) {}

  FineTuningScenario build() {
    result_.config = known_.config;
    auto& assumed = result_.training.assumed;
    result_.profile = profile_of(*card_of(row_.gpu), row_.gpu, assumed);
    if (!stack_.narrow_lanes_of.empty() && holds(row_.gpu, stack_.narrow_lanes_of))
      narrow_lanes(result_.profile, assumed);
    if (stack_.loads_all_kernels) load_all_kernels(result_.profile, assumed);
    result_.training.allocator =
        stack_.unsloth ? unsloth_allocator_of(row_.source)
                       : AllocatorSettings{.expandable_segments = stack_.expandable_segments};
    result_.device_data = stack_.device_data;
    if (is_recent(row_, stack_)) result_.mean_length = stack_.mean_length;
    result_.profile.memory -= result_.device_data;
    set_host();
    assumed.push_back(fmt::format("as {} trains ({})", stack_.repository, stack_.document));
    if (by_megatron(row_, stack_)) {
      result_.training.setup.world = static_cast<int>(*row_.gpus);
      result_.megatron = megatron_settings(row_, stack_, result_.config);
      return std::move(result_);
    }
    result_.loads_in_shards = is_quantized(row_) && holds(row_.strategy, "FSDP") &&
                              runtime_of(row_, stack_) == Runtime::fsdp2;
    const auto tuning = tuning_of();
    eager::ModelSettings settings = eager::usual_settings(base_);
    result_.model = tuning ? eager::fine_tuned_model({result_.config, settings, *tuning}) : base_;
    set_runtime();
    set_loop(settings);
    if (tuning) {
      const std::optional<Dtype> trainable_dtype = setup().trainable_dtype;
      eager::set_fine_tuning(*tuning, setup());
      if (auto* zero = std::get_if<eager::DeepSpeedSetup>(&setup().runtime)) {
        // The tables were measured before 2026, when DeepSpeed cast adapters, too.
        zero->settings.keeps_dtypes = false;
        setup().trainable_dtype = trainable_dtype;
      }
    }
    if (!tuning) set_whole_model();
    return std::move(result_);
  }

 private:
  eager::TrainingSetup& setup() { return result_.training.setup; }

  /// Quantised weights under FSDP1 and ZeRO-3, and all of --low_memory, come from the host one by
  /// one.
  bool loads_to_host() const {
    if (runs_litgpt()) return false;
    if (holds(row_.strategy, "FSDP") && stack_.low_memory) return true;
    return is_quantized(row_) &&
           (runtime_of(row_, stack_) == Runtime::fsdp1 || partitions_quantized(row_, stack_));
  }

  bool runs_litgpt() const { return base_.family == "litgpt"; }

  /// Views and backward keep their shares of an operator's time.
  void set_host() {
    if (stack_.host_operation == 0 || !result_.profile.host) return;
    HostCosts& host = *result_.profile.host;
    const double factor = stack_.host_operation * 1e-6 / host.operation.seconds();
    host.operation = Duration::from_seconds(host.operation.seconds() * factor);
    host.view = Duration::from_seconds(host.view.seconds() * factor);
  }

  std::optional<eager::FineTuningSetup> tuning_of() const {
    if (!is_lora(row_) && !is_prompt_adapter(row_)) return std::nullopt;
    eager::FineTuningSetup tuning;
    tuning.base = std::make_shared<const Model>(base_);
    if (is_quantized(row_)) tuning.quantization = quantization_of(row_, stack_);
    if (is_quantized(row_) && runs_litgpt()) {
      // lightning_fabric 2.2, plugins/precision/bitsandbytes.py.
      tuning.quantization->quantized_from = Dtype::float16;
      tuning.quantization->quantizes_output = true;
    }
    if (is_quantized(row_) && stack_.unsloth)
      tuning.quantization->skipped_modules = unsloth_unquantized(row_.source, base_);
    if (is_lora(row_) && runs_litgpt())
      tuning.litgpt_lora = litgpt_lora_of(row_, stack_);
    else if (is_lora(row_))
      tuning.adapter = adapter_of(row_, stack_, base_.family);
    else
      tuning.litgpt_adapter = eager::LitgptAdapter{.of_version_2 = row_.method == "adapter_v2"};
    const bool quantized = is_quantized(row_);
    tuning.trainable_dtype = quantized ? stack_.adapter_of_quantized : stack_.adapter;
    // PEFT's adapters are float32 without a cast.
    if (stack_.unsloth || (stack_.casts_adapters_alone && !quantized))
      tuning.trainable_dtype.reset();
    // DeepSpeed's engine makes all of a model float16.
    if (in_float16(row_) && by_deepspeed(row_, stack_)) tuning.trainable_dtype = Dtype::float16;
    tuning.to_host = loads_to_host();
    tuning.warm_up = is_before_4_50(row_, stack_) ? eager::WarmUp::none
                     : stack_.unsloth             ? unsloth_warm_up_of(row_.source)
                                                  : eager::WarmUp::by_parameter;
    tuning.free_memory = result_.profile.memory - result_.profile.context_memory.value_or(Bytes{});
    tuning.casts_ends_and_back =
        stack_.casts_ends_and_back && !holds(row_.strategy, "FSDP") && is_lora(row_);
    tuning.prepares_for_kbit = tuning.casts_ends_and_back && quantized;
    tuning.empties_cache = tuning.to_host && quantized && stack_.low_memory;
    if (checkpoints(row_, stack_)) tuning.checkpointed_layers = blocks_of(base_);
    tuning.input_gradients = checkpoints(row_, stack_);
    if (stack_.unsloth) tuning.unsloth = unsloth_settings(tuning);
    // axolotl's activation_offloading wraps the layers itself, without reentrant checkpoints, with
    // which Gemma 4 is not simulated.
    tuning.checkpointing.reentrant = stack_.unsloth || holds(row_.checkpointing, "(reentrant)") ||
                                     (stack_.reentrant && !is_recent(row_, stack_) &&
                                      !offloads_activations(row_) && base_.family != "gemma4_text");
    return tuning;
  }

  /// Half of what the card has free when the first loss is computed, at most 4 GiB.
  eager::UnslothSettings unsloth_settings(const eager::FineTuningSetup& tuning) const {
    eager::UnslothSettings unsloth{.offloads_inputs = row_.checkpointing == "unsloth"};
    const Model tuned =
        eager::fine_tuned_model({result_.config, eager::usual_settings(base_), tuning});
    Bytes held = result_.profile.context_memory.value_or(Bytes{});
    for (const Parameter& p : tuned.parameters) held += elements_of(p.shape) * size_of(p.dtype);
    unsloth.loss_memory = eager::unsloth_loss_memory(result_.profile.memory - held);
    unsloth.loss = unsloth_loss_of(row_.source);
    unsloth.rotary = unsloth_rotary_of(row_.source);
    return unsloth;
  }

  void set_runtime() {
    const Runtime runtime = runtime_of(row_, stack_);
    const int world = static_cast<int>(row_.gpus.value_or(1));
    const bool shards =
        runtime == Runtime::fsdp1 || runtime == Runtime::fsdp2 || runtime == Runtime::deepspeed;
    const TrainingPrecision precision = in_float16(row_) && shards ? TrainingPrecision::fp16_mixed
                                        : stack_.pure || !shards   ? TrainingPrecision::bf16
                                                                   : TrainingPrecision::bf16_mixed;
    setup() = eager::requested_setup(
        result_.model, {.runtime = runtime,
                        .sharding = sharding_of(row_, stack_),
                        .precision = precision,
                        .use_original_parameters =
                            runtime == Runtime::fsdp1 && is_lora(row_) && !stack_.wraps_adapters,
                        .world = world,
                        .ranks_per_node = std::min(world, 8)});
    if (!stack_.pure && !shards)
      setup().forward_autocast = stack_.unsloth ? dtype_of_base(row_) : Dtype::bfloat16;
    if ((stack_.casts_adapters_alone || stack_.unsloth) && is_lora(row_) && !shards)
      setup().trainable_dtype.reset();
    if (auto* zero = std::get_if<eager::DeepSpeedSetup>(&setup().runtime)) set_buckets(*zero);
    if (auto* fsdp = std::get_if<eager::Fsdp1Setup>(&setup().runtime)) {
      fsdp->options.offload_parameters = holds(row_.strategy, "offload");
      fsdp->options.sync_module_states = loads_to_host();
      if (stack_.wraps_adapters && is_lora(row_)) fsdp->units.auto_wrap = peft_wrap();
    }
    if (auto* fsdp = std::get_if<eager::Fsdp2Setup>(&setup().runtime);
        fsdp && holds(row_.strategy, "offload"))
      fsdp->offload = eager::fsdp2::CpuOffloadPolicy{};
    result_.training.runtime = runtime;
    result_.training.strategy = std::string(name_of(sharding_of(row_, stack_)));
    result_.training.precision = std::string(name_of(precision));
  }

  /// The source's file of DeepSpeed. "auto" in it: transformers/integrations/deepspeed.py,
  /// trainer_config_finalize.
  void set_buckets(eager::DeepSpeedSetup& zero) const {
    DeepSpeedSettings& settings = zero.settings;
    // The tables are older than November 2025.
    settings.buckets_before_backward = true;
    if (stack_.zero_bucket == 0) return;
    settings.overlap_comm = true;
    if (settings.stage == 3) {
      const std::int64_t hidden = result_.config.at("hidden_size").integer();
      settings.reduce_bucket_elements = hidden * hidden;
      settings.prefetch_bucket_elements = hidden * hidden * 9 / 10;
      settings.param_persistence_elements = 10 * hidden;
    } else {
      settings.reduce_bucket_elements = stack_.zero_bucket;
      settings.allgather_bucket_elements = stack_.zero_bucket;
    }
  }

  /// The caching allocator keeps what no later length fits into.
  void set_lengths() {
    eager::TrainingSettings& loop = setup().loop;
    if (const auto samples = shorter_samples(row_)) {
      const std::int64_t sequences = loop.batch * (learns_preferences(row_) ? 2 : 1);
      loop.lengths = growing_lengths(*samples, row_.seq, sequences, micro_batches_of_run(row_));
      loop.micro_batches = static_cast<int>(loop.lengths.size());
      loop.length = loop.lengths.back();
      result_.training.assumed.emplace_back("lengths drawn as the data are said to have them");
      return;
    }
    loop.length = *row_.seq;
    if (stack_.recent_sorts && is_recent(row_, stack_)) {
      loop.lengths = {loop.length, std::min(stack_.mean_length, loop.length)};
      loop.micro_batches = 2;
      return;
    }
    const bool cuts = stack_.unsloth && unsloth_loss_of(row_.source) == eager::UnslothLoss::cut;
    if (cuts && loop.batch * loop.length > eager::most_tokens_with_whole_logits)
      loop.lengths = {loop.length, eager::most_tokens_with_whole_logits / loop.batch};
    if (!is_of(row_, stack_.longest_first_part)) return;
    loop.lengths.assign(static_cast<std::size_t>(loop.micro_batches),
                        std::min(stack_.usual_length, loop.length));
    loop.lengths.front() = loop.length;
  }

  NameWrap peft_wrap() const {
    const auto units = peft_units(tree_of(result_.model), result_.model.no_split_classes);
    return {.modules = {units.begin(), units.end()}};
  }

  /// Unsloth's attention takes no mask.
  bool pads() const {
    if (stack_.unsloth || (*row_.micro_batch == 1 && !learns_preferences(row_))) return false;
    return shorter_samples(row_) || (stack_.recent_pads && is_recent(row_, stack_));
  }

  void set_loop(eager::ModelSettings settings) {
    eager::TrainingSettings& loop = setup().loop;
    loop.batch = *row_.micro_batch;
    loop.micro_batches = micro_batches_of(row_, stack_);
    set_lengths();
    loop.syncs_once = !stack_.reduces_every_micro_batch ||
                      !std::holds_alternative<eager::Fsdp2Setup>(setup().runtime);
    loop.loss = stack_.loss_in_model ? eager::LossPlace::in_model : eager::LossPlace::after_model;
    loop.clips = !stack_.pure;
    loop.scales_loss = stack_.unsloth && in_float16(row_);
    loop.holds_logits = (stack_.holds_logits && !is_of(row_, stack_.longest_first_part)) ||
                        (stack_.recent_holds_output && is_recent(row_, stack_));
    loop.pads = pads();
    loop.drops_logits = stack_.drops_logits;
    loop.optimizer = optimizer_of(row_, stack_.by_trainer);
    loop.optimizer.denominator_apart = stack_.old_adamw;
    if (stack_.fused_adamw && !loop.optimizer.bitsandbytes)
      loop.optimizer.implementation = eager::OptimizerImplementation::fused;
    if (is_compiled(row_))
      setup().compiled = scope_for_class(compile_scope(row_, stack_), base_.class_name);
    if (holds(row_.strategy, "offload"))
      loop.optimizer.implementation = eager::OptimizerImplementation::loop;
    setup().session.compute_capability = result_.profile.compute_capability;
    setup().session.attention.cudnn = false;
    setup().model = std::move(settings);
    setup().model.dropout = true;
    if (stack_.flash_for_eager && !setup().model.has_sdpa)
      setup().model.attention = eager::AttentionImplementation::flash;
    setup().model.traced_without_masks = stack_.traced_without_masks;
    constexpr int parts = 8;  // CEWithChunkedOutputLoss's default, of torchtune and of axolotl
    if (chunks_cross_entropy(row_)) {
      // Packed samples make one sequence of a micro-batch, whose parts are views.
      setup().model.logit_chunks = parts;
      loop.length *= std::exchange(loop.batch, 1);
    }
    if (cuts_cross_entropy(row_))
      setup().model.loss = eager::LanguageLoss::cut;
    else if (!is_recent(row_, stack_))
      setup().model.loss = loss_of(row_, stack_);
    setup().model.float_logits = stack_.float_logits;
    if (runs_litgpt()) {
      constexpr std::int64_t chunk = 128;  // lm_head_chunk_size, chunk_size
      loop.divides_in_backward = true;
      loop.loss_chunk_tokens = chunk;
      if (is_lora(row_) || is_prompt_adapter(row_)) setup().model.logit_chunk_tokens = chunk;
      // instantiate_bnb_optimizer, whatever class the recipe names.
      if (is_quantized(row_))
        loop.optimizer.bitsandbytes = eager::BitsAndBytesOptimizer{.bits = 32, .paged = true};
    }
    loop.steps_in_backward = ablation_step(row_) >= steps_in_backward_from && !is_lora(row_);
    loop.offloads_activations = ablation_step(row_) >= offloads_from || offloads_activations(row_);
    if (ablation_step(row_) >= chunks_from) setup().model.logit_chunks = loop.loss_chunks = parts;
    if (learns_preferences(row_)) {
      loop.loss = eager::LossPlace::after_model;
      loop.objective = eager::Objective::preference;
      loop.reference =
          is_lora(row_) ? eager::ReferencePolicy::without_adapter : eager::ReferencePolicy::copy;
    }
    if (row_.optimizer.empty()) result_.training.assumed.emplace_back("the optimizer AdamW");
    if (stack_.unsloth && !shorter_samples(row_))
      result_.training.assumed.emplace_back("samples as long as their limit");
    if (row_.checkpointing.empty())
      result_.training.assumed.emplace_back("no activation checkpointing");
  }

  void set_whole_model() {
    if (holds(row_.precision, "int8 weight-only")) setup().int8 = eager::Int8Training::weights;
    if (holds(row_.precision, "int8 mixed")) setup().int8 = eager::Int8Training::products;
    setup().model.torchtitan_attention = stack_.torchtitan;
    if (holds(row_.precision, "float8")) {
      // benchmarks/float8/training/llama3.sh: what goes with each recipe.
      using enum eager::parallel::Float8Recipe;
      const bool by_tensors = holds(row_.precision, "tensorwise");
      setup().float8 = eager::parallel::float8_settings(by_tensors ? tensorwise : rowwise, true);
    }
    const bool selective = row_.checkpointing == "selective (per-op)";
    if (!checkpoints(row_, stack_) && !selective) return;
    setup().checkpointing =
        eager::checkpointing_of(result_.model, {.every = 1, .selective = selective});
  }

  const FineTuningRow& row_;
  const FineTuningStack& stack_;
  KnownModel known_;
  Model base_;
  FineTuningScenario result_;
};

}  // namespace

std::string why_not_predicted(const FineTuningRow& row) {
  if (!row.unreadable.empty()) return row.unreadable;
  if (!row.peak_gib && !row.out_of_memory) return "no memory is stated";
  const FineTuningStack* stack = fine_tuning_stack(row.source);
  if (std::string why = why_other_method(row); !why.empty()) return why;
  if (!stack) return fmt::format("the settings of {} are not known", repository_of(row));
  if (std::string why = why_other_strategy(row, *stack); !why.empty()) return why;
  if (learns_preferences(row) && !stack->compares_logits)
    return fmt::format("DPO of {} is not modelled", stack->repository);
  if (!row.gpus) return "number of GPUs not stated";
  if (!row.micro_batch) return "batch not stated";
  if (!row.seq && !shorter_samples(row)) return "length not stated";
  if (row.checkpointing.empty()) return "checkpointing not stated";
  if (!card_of(row.gpu)) return fmt::format("no figures of a GPU \"{}\"", row.gpu);
  const auto known = known_model(row.model, stack->model);
  if (!known) return fmt::format("the shape of {} is not known", row.model);
  if (row.checkpointing.starts_with("selective") && !stack->torchtitan)
    return fmt::format("checkpointing \"{}\" of {} is not known", row.checkpointing,
                       stack->repository);
  if (stack->unsloth && (!is_lora(row) || !eager::has_unsloth_patches(known->model.family)))
    return fmt::format("Unsloth's method {} is not modelled for {}", row.method,
                       known->model.family);
  return {};
}

FineTuningScenario fine_tuning_scenario(const FineTuningRow& row) { return Builder(row).build(); }

}  // namespace shardscope
