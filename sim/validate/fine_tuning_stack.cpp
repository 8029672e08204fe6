#include "sim/validate/fine_tuning_stack.h"

#include <algorithm>
#include <array>

namespace shardscope {
namespace {

constexpr KnownModelForm unsloth_form{.splits_projections = true, .published_positions = true};

/// The same README has decoding in bfloat16 on the same card: 54.09 and 32.22 tokens/s of 24 and 40
/// layers, 0.78 ms a layer. A layer of modeling_qwen.py decodes with 23 operators and 50 views of
/// 10/45 each: 23 us an operator.
constexpr double qwen_host_operation = 23;

/// TinyStoriesV2-GPT4-train in uint16: 541,229,347 tokens of a vocabulary that was made for it
/// (10,000 words; runs of Stanford's CS336 print the number). Llama 2's tokenizer gives some
/// percent more.
constexpr Bytes tiny_stories{2 * 541'229'347LL};

/// ms-swift's scripts whose comment on memory was written from 2024-12-05 to 2025-02-24 (git blame
/// at 3602360a): its requirements of then have transformers before 4.50.
constexpr std::array<std::string_view, 12> swift_of_2024{
    "train/full/train",     "multi-gpu/ddp/",          "multi-gpu/ddp_device_map/",
    "multi-gpu/deepspeed/", "streaming/lazy_",         "train/tuners/",
    "train/lora_sft",       "qwen2_5-self-cognition/", "train/rlhf/simpo",
    "train/qlora/",         "multi-gpu/device_map/",   "train/optimizer/muon"};

constexpr std::array<FineTuningStack, 12> stacks{
    {{.repository = "Lightning-AI/litgpt",
      .document = "litgpt/finetune/lora.py and config_hub",
      .targets = "q_proj+v_proj",
      .dropout = 0.05,
      .adapter = Dtype::bfloat16,
      .adapter_of_quantized = Dtype::bfloat16,
      .pure = true,
      .loss_in_model = false,
      .holds_logits = true,
      .longest_first_part = "resource-tables",  // get_longest_seq_length of 2023
      // tutorials/oom.md: "the median length of the samples in Alpaca is 110 tokens".
      .usual_length = 110,
      .flattens = true,
      .model = {.may_tie = false, .fused_gelu = true, .litgpt = true},
      .keeps_inputs = true,  // bitsandbytes 0.41.1, later 0.42.0
      // config_hub's files of four GPUs: 16 / (4 * 1) and 64 / (4 * 4) micro-batches.
      .micro_batches = 4,
      .prompt_adapters = true},
     {.repository = "AnswerDotAI/fsdp_qlora",
      .document = "train.py: --lora_rank 64 --lora_target_modules all --precision bf16",
      .rank = 64,
      .targets = "q_proj+k_proj+v_proj+gate_proj+up_proj+down_proj",
      .dropout = 0.1,
      .adapter = Dtype::bfloat16,
      .adapter_of_quantized = Dtype::bfloat16,
      .pure = true,
      .loss = eager::LanguageLoss::floated,  // March 2024: transformers 4.38
      .holds_logits = true,                  // `output` of the loop
      .drops_logits = true,
      .flattens = true,
      .wraps_adapters = true,
      .low_memory = true,
      .double_quantization = true,  // Linear4bit's compress_statistics, which it leaves alone
      .storage = Dtype::bfloat16,
      .keeps_inputs = true,  // March 2024: bitsandbytes 0.43.0
      .narrow_lanes_of = "3090"},
     {.repository = "QwenLM/Qwen",
      .document = "finetune.py: lora_r 64 on c_attn, c_proj, w1, w2; finetune_ds.sh",
      .rank = 64,
      .targets = "c_attn+c_proj+w1+w2",
      .dropout = 0.05,
      // PEFT 0.5, that of September 2023, makes adapters in float32 and moves them to the device;
      // DeepSpeed's engine casts those of GPTQ.
      .adapter_of_quantized = Dtype::bfloat16,
      .casts_adapters_alone = true,
      .by_trainer = true,
      .loss = eager::LanguageLoss::copied,
      .flattens = true,
      .full_by_deepspeed = true,
      .old_adamw = true,  // "Pytorch 2.0"
      .before_4_50 = true,
      .reentrant = true,           // transformers 4.32
      .zero_bucket = 200'000'000,  // finetune/ds_config_zero2.json
      .micro_batches = 8,
      // finetune_lora_ds.sh has --per_device_train_batch_size 2. The README says 1 for all. Chosen
      // after the rows' errors were known (docs/measured/2026-11-30_fine_tuning_rates.md).
      .script_word = "multinode",
      .script_micro_batch = 2,
      .host_operation = qwen_host_operation,
      // CUDA 11.8 also runs on drivers before 515, which cannot load lazily; which driver it was is
      // not stated.
      .loads_all_kernels = true},
     {.repository = "huggingface/peft",
      .document = "examples/sft and method_comparison",
      .adalora_rank = 64,                       // method_comparison/MetaMathQA/experiments/adalora
      .adapter_of_quantized = Dtype::bfloat16,  // SFTTrainer casts them
      .by_trainer = true,
      .loss = eager::LanguageLoss::floated,  // the pages on FSDP and DeepSpeed: April 2024
      .recent_part = "method_comparison",
      // MetaMathQA in Llama 3's tokens. Files of results at 5d602fdb: "tokens / sec" times "train
      // time" by "train samples", 7,206 * 29.4 s / 1,000.
      .mean_length = 212,
      .recent_pads = true,          // run.py: tokenizer.pad
      .recent_holds_output = true,  // `outputs` of its train()
      .recent_sorts = true,         // utils.py: BucketIterator
      .flattens = true,
      .wraps_adapters = true,
      .double_quantization = true,  // --use_nested_quant True
      .storage = Dtype::bfloat16,
      .keeps_inputs = true,  // bitsandbytes 0.43.0
      .reentrant = true,     // --use_reentrant True of the page
      .micro_batches = 1},
     {.repository = "modelscope/ms-swift",
      .document = "swift/arguments: lora_rank 8, all-linear",
      .adalora_rank = 12,  // adalora_init_r
      .dropout = 0.05,
      .by_trainer = true,
      .checkpointed_part = "multi-gpu/fsdp2_lora/",
      .double_quantization = true,
      .parts_before_4_50 = swift_of_2024,
      .micro_batches = 16,
      .compares_logits = true,  // trainers/rlhf_trainer/dpo_trainer.py
      .runs_megatron = true},   // megatron/arguments/megatron_args.py
     {.repository = "axolotl-ai-cloud/axolotl",
      .document = "examples, lora_target_linear",
      .dropout = 0.05,
      .by_trainer = true,
      .double_quantization = true,
      .storage = Dtype::bfloat16,
      .flash_for_eager = true,      // gpt-oss: attn_implementation, FlashAttention 3 of the Hub
      .reentrant = true,            // utils/config/__init__.py, normalize_config
      .expandable_segments = true,  // utils/__init__.py, set_pytorch_cuda_alloc_conf
      .reduces_every_micro_batch = true,  // its FSDP2 examples are of August 2025
      .casts_ends_and_back = true},
     {.repository = "pytorch/torchtune",
      .document = "recipes/configs",
      .targets = "q_proj+v_proj+o_proj+gate_proj+up_proj+down_proj",
      .adapter = Dtype::bfloat16,
      .adapter_of_quantized = Dtype::bfloat16,
      .pure = true,
      .loss_in_model = false,
      .float_logits = true,  // TransformerDecoder.unembed
      .flattens = true,
      .double_quantization = true,
      .fused_adamw = true},  // recipes/configs/llama3_2/3B_lora_single_device.yaml
     {.repository = "h2oai/h2o-llmstudio",
      .document = "lora_r 4 on q_proj and v_proj",
      .rank = 4,
      .targets = "q_proj+v_proj",
      .before_4_50 = true,
      .reentrant = true},
     {.repository = "pytorch/ao",
      .part = "docs/source/workflows/training.md",
      .document = "benchmarks/float8/training/llama3.sh: torchtitan's llama3_8b.toml",
      .loss_in_model = false,
      .fused_adamw = true,
      .torchtitan = true},
     {.repository = "pytorch/ao",
      .part = "torchao/prototype/quantized_training",
      // 9acc9a4d, with transformers 4.44 and _AdamW, whose step is one compiled graph.
      .document = "benchmarks/quantized_training/pretrain_llama2.py",
      .pure = true,
      .loss = eager::LanguageLoss::floated,
      .model = {.own_of = "torchao"},  // its transformer_configs, "1B"
      .fused_adamw = true,
      .traced_without_masks = true,  // transformers 4.44
      .prints_allocated = true,
      .device_data = tiny_stories},  // get_tinystories().cuda()
     {.repository = "unslothai/notebooks",
      .document = "unsloth 2026.8.11: r 16 on all linear layers, xformers",
      .rank = 16,
      // Notebooks that train embeddings have UnslothTrainer, which makes its optimizer itself:
      // unsloth/trainer.py, _create_unsloth_optimizer.
      .model = unsloth_form,
      .double_quantization = true,
      .expandable_segments = true,  // unsloth/__init__.py, from spring 2024 on
      .micro_batches = 4,
      .unsloth = true},
     {.repository = "unslothai/unsloth",
      .document = "README.md: r 32 on all linear layers",
      .rank = 32,
      .model = unsloth_form,
      .double_quantization = true,
      .expandable_segments = true,
      .unsloth = true}}};

}  // namespace

const FineTuningStack* fine_tuning_stack(std::string_view source) {
  const std::string_view repository = source.substr(0, source.find(' '));
  const auto found = std::find_if(stacks.begin(), stacks.end(), [&](const FineTuningStack& stack) {
    return stack.repository == repository && source.find(stack.part) != std::string_view::npos;
  });
  return found == stacks.end() ? nullptr : &*found;
}

}  // namespace shardscope
