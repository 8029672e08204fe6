// The losses of TRL's trainers, of the log-probabilities that a model with TRL's fused head
// returns.
#pragma once

#include <cstdint>

#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

/// Whose trainer makes the loss.
enum class Objective : std::uint8_t {
  next_token,  ///< the model or the loop, of logits
  supervised,  ///< TRL's SFTTrainer
  preference,  ///< DPOTrainer: a batch has a chosen and a rejected sequence of each pair
  policy,      ///< GRPOTrainer's step on given completions
};

/// Whose log-probabilities those of the policy are compared with.
enum class ReferencePolicy : std::uint8_t {
  none,             ///< computed beforehand, or not needed
  copy,             ///< a second model
  without_adapter,  ///< the model with its adapter disabled
};

/// In the place of a fused head's outputs, from whole logits (B, T, V): {none, log-probabilities
/// (B, T - 1), logits in float32}. Source: LLaMA-Factory, train/dpo/trainer.py
/// (concatenated_forward), train/trainer_utils.py (get_batch_logps).
Tensors outputs_of_logits(Session& s, Tensor logits, const Tensor& labels);

/// The same of ms-swift's DPOTrainer, whose logits may lack the first tokens: labels are cut to
/// them. The first output is none, then log-probabilities and mean logits (B, T'). Source: ms-swift
/// 4.6, rlhf_trainers/rlhf_mixin.py (get_per_token_logps); TRL 0.24, selective_log_softmax.
Tensors outputs_of_kept_logits(Session& s, const Tensor& logits, const Tensor& labels);

/// SFTTrainer.compute_loss, of `outputs` of the model. Source: TRL 1.16, trainer/sft_trainer.py.
Tensor supervised_loss(Session& s, const Tensors& outputs);

/// DPOTrainer._compute_loss with the sigmoid loss: the first half of the batch is chosen.
/// `reference` are the outputs of the reference; empty: its sums came with the batch.
/// Source: TRL 1.16, trainer/dpo_trainer.py.
Tensor preference_loss(Session& s, const Tensors& outputs, const Tensors& reference);

/// GRPOTrainer._compute_loss with the dapo loss, of tokens from `prompt` on. `reference`: outputs
/// of the reference, where a KL divergence is added; else empty. Source: TRL 1.16,
/// trainer/grpo_trainer.py.
Tensor policy_loss(Session& s, const Tensors& outputs, std::int64_t prompt,
                   const Tensors& reference);

/// While it lives, the adapters of `root` do nothing: PeftModel.disable_adapter(). Source: peft
/// 0.21.2, tuners/lora/layer.py (disable_adapters), utils/other.py (ModulesToSaveWrapper).
class WithoutAdapters {
 public:
  explicit WithoutAdapters(Module& root);
  WithoutAdapters(const WithoutAdapters&) = delete;
  WithoutAdapters& operator=(const WithoutAdapters&) = delete;
  ~WithoutAdapters();

 private:
  std::vector<std::pair<Module*, Module::Forward>> before_;
};

}  // namespace shardscope::eager
