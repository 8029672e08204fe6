// A training under a runtime that the command line asks for, without a configuration file.
#pragma once

#include <functional>
#include <string_view>

#include "core/pytorch/plans/runtime_request.h"
#include "core/pytorch/runtimes/training/training_setup.h"

namespace shardscope::eager {

/// What the runtime is told at its own defaults. Loop, session and model settings are the caller's,
/// but for autocast. Throws Error where the runtime has no such strategy or units.
TrainingSetup requested_setup(const shardscope::Model& model, const RuntimeRequest& request);

/// Puts a model that is fine-tuned into a training whose runtime is set up: where it is made, and
/// on one rank without DDP, as accelerate has it.
void set_fine_tuning(FineTuningSetup tuning, TrainingSetup& setup);

/// --checkpointing: which blocks, and what of them is kept.
struct CheckpointChoice {
  int every = 0;           ///< k: every k-th block from the first on; 0: none
  bool selective = false;  ///< what attention and every second aten.mm return is kept
  bool reentrant = false;  ///< use_reentrant: of transformers' own checkpoints
  bool operator==(const CheckpointChoice&) const = default;
};
/// "none", "full", "every:K", "selective", "reentrant", "reentrant:K"; throws Error naming `where`.
CheckpointChoice parse_checkpoint_choice(std::string_view text, std::string_view where);
/// What Megatron-LM's selective checkpointing keeps: all but products of scores and values, softmax
/// and the dropout behind it. Source: Megatron-LM core/transformer/attention.py
/// (_checkpointed_attention_forward); arXiv:2205.05198, section 5.
std::function<bool(const Operator&)> all_but_core_attention();
/// Blocks are the numbered modules among the classes that the model is not to be split below.
CheckpointSetup checkpointing_of(const shardscope::Model& model, const CheckpointChoice& choice);
/// transformers' gradient_checkpointing_enable on the base of a model that is fine-tuned. Throws
/// Error where the choice is selective.
void set_checkpointing(const CheckpointChoice& choice, FineTuningSetup& tuning);

}  // namespace shardscope::eager
