// What each source says of its runs that its rows do not.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/quantities.h"
#include "core/pytorch/engine/models/make_module.h"
#include "sim/validate/known_model.h"

namespace shardscope {

struct FineTuningStack {
  std::string_view repository;  ///< "Lightning-AI/litgpt"
  std::string_view part = {};   ///< of the source, of one that has several stacks
  std::string_view document;    ///< where the defaults stand
  std::int64_t rank = 8;
  std::int64_t adalora_rank = 0;            ///< init_r of AdaLoRA; 0: not known
  std::string_view targets = "all-linear";  ///< of LoRA, with + between names
  double dropout = 0;                       ///< before the adapters
  Dtype adapter = Dtype::float32;
  Dtype adapter_of_quantized = Dtype::float32;
  /// modules_to_save keep the base's dtype, whatever the adapters have.
  bool casts_adapters_alone = false;
  /// The weights are bfloat16 and so is what is computed; else autocast surrounds the forward.
  bool pure = false;
  bool by_trainer = false;  ///< transformers' Trainer makes the optimizer
  bool loss_in_model = true;
  eager::LanguageLoss loss = eager::LanguageLoss::upcast;
  /// Rows of this part of the source were measured with today's libraries.
  std::string_view recent_part = {};
  /// Tokens of a sample of that part on average, where its rows state the limit alone: rates are
  /// those of such samples.
  std::int64_t mean_length = 0;
  /// Samples of that part are padded, and a variable of its loop holds the model's output until
  /// the next forward has returned.
  bool recent_pads = false, recent_holds_output = false;
  /// Its micro-batches get shorter in each bucket, so that the longest comes after a short one.
  bool recent_sorts = false;
  bool float_logits = false;  ///< the model's output is in float32, before the loss
  /// Variables of the training loop hold logits and loss until the next ones take their place.
  bool holds_logits = false;
  bool drops_logits = false;  ///< the loop sets that variable to None after each micro-batch
  /// Rows of this part of the source ran their longest batch first: no earlier logits were alive.
  std::string_view longest_first_part = {};
  std::int64_t usual_length = 0;  ///< of the batches after that one
  /// Part of the source whose commands turn checkpointing off, and whose accelerate file turns it
  /// on (fsdp_activation_checkpointing).
  std::string_view checkpointed_part = {};
  bool flattens = false;  ///< FSDP1, not FSDP2
  KnownModelForm model = {};
  /// FSDP1 has a unit for each adapter beside those of blocks, and use_orig_params=False.
  bool wraps_adapters = false;
  /// Rank 0 loads all that is not quantised on the host, and empties the cache after quantising.
  bool low_memory = false;
  bool full_by_deepspeed = false;  ///< whole models train under ZeRO-3, on one GPU, too
  bool double_quantization = false;
  Dtype storage = Dtype::uint8;  ///< bnb_4bit_quant_storage
  bool keeps_inputs = false;     ///< bitsandbytes before 0.43.2
  bool old_adamw = false;        ///< PyTorch before 2.1
  bool fused_adamw = false;      ///< AdamW(fused=True), unless the row names bitsandbytes'
  /// Models whose attention transformers writes out run a kernel of FlashAttention.
  bool flash_for_eager = false;
  bool before_4_50 = false;  ///< all rows ran with transformers before 4.50
  /// Rows of these parts of the source did.
  std::span<const std::string_view> parts_before_4_50 = {};
  bool reentrant = false;             ///< transformers' checkpointing until 2024
  bool traced_without_masks = false;  ///< transformers until 4.52, in compiled training
  bool expandable_segments = false;   ///< of the caching allocator
  /// accelerate until 1.10: its no_sync does nothing under FSDP2 (Accelerator.no_sync of 1.11).
  bool reduces_every_micro_batch = false;
  /// DeepSpeed's buckets, elements; 0: its own defaults. Of ZeRO-3 they follow the hidden size
  /// ("auto").
  std::int64_t zero_bucket = 0;
  int micro_batches = 1;  ///< of a step, where notes do not say it
  /// Rows whose notes have this word ran with `script_micro_batch`, whatever the row says.
  std::string_view script_word = {};
  int script_micro_batch = 0;
  /// Unsloth's FastLanguageModel: its kernels, and autocast in the base's dtype.
  bool unsloth = false;
  bool casts_ends_and_back = false;  ///< eager::FineTuningSetup::casts_ends_and_back
  bool compares_logits = false;  ///< DPO of pairs by whole logits, with the adapter off or a copy
  /// Of its machine, microseconds of the host for an operator of a forward; 0: the card's profile.
  double host_operation = 0;
  bool runs_megatron = false;  ///< whole models, with Megatron-LM's distributed optimizer
  /// torchtitan's loop and attention: weights and reductions in float32, computed in bfloat16.
  bool torchtitan = false;
  /// Its figures are torch.cuda.max_memory_allocated() / 1e9.
  bool prints_allocated = false;
  /// All kernels are loaded with the context: without lazy loading, of which CUDA 11.7 and driver
  /// 515 are the first.
  bool loads_all_kernels = false;
  /// The training's data, which the program keeps on the device.
  Bytes device_data = {};
  /// Cards whose name has this word get 8 lanes of PCIe 3 each.
  std::string_view narrow_lanes_of = {};
  bool prompt_adapters = false;  ///< methods "adapter" and "adapter_v2" are litgpt's
};

/// By a row's source. None for one whose settings are not known.
const FineTuningStack* fine_tuning_stack(std::string_view source);

}  // namespace shardscope
