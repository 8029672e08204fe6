// Options about how PyTorch trains, whichever runtime shards: versions, kernels, optimizer, loss.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/fine_tuning_options.h"
#include "cli/job_options.h"
#include "core/pytorch/runtimes/training/training_setup.h"

namespace shardscope {

struct PytorchOptions {
  std::optional<std::string> pytorch, transformers, attention, layers, optimizer_implementation,
      dropout, loss, reference, float8, compile, liger, optimizer_in_backward,
      activation_offloading;
  std::optional<std::string> expert_load;  ///< of torchtitan's mixtures: cli/expert_load.h
  std::optional<std::int64_t> prompt;      ///< tokens
  std::optional<std::int64_t> eval_batch;  ///< of a file, for simulate's --phases alone
  FineTuningOptions fine_tuning;
  bool flattens = false;    ///< of a file: Recipe::flattens
  bool by_trainer = false;  ///< a file says that transformers' Trainer makes the optimizer
  std::optional<std::string> allocator;  ///< of simulate and plan alone: cli/allocator_option.h

  /// Throws Error naming an option that the native runtime has one value of.
  void refuse_under_native() const;
};

/// "adamw, adam, ..., rmsprop_bnb_32bit": what --optimizer takes under PyTorch's runtimes.
std::string pytorch_optimizer_names();
/// "adamw_8bit", "paged_adamw_32bit", ...: of PyTorch's runtimes alone.
bool is_of_bitsandbytes(const std::optional<std::string>& optimizer);
/// Throws Error, naming all, for what is no optimizer of PyTorch's runtimes.
void check_optimizer(const std::string& name);

/// Throws Error unless the operators of PyTorch `version` are known; absent: the known one.
void check_pytorch(const std::optional<std::string>& version);

/// ", compiled blocks" for a headline; "" of eager code.
std::string_view compiled_words(CompileScope scope);

/// Of --float8; none without it. Throws Error for another word.
eager::parallel::Float8Recipe float8_recipe_of(const PytorchOptions& options);

/// Of --compile; none without it. Throws Error for another word.
CompileScope compile_scope_of(const PytorchOptions& options);

void declare_pytorch_options(Command& command, PytorchOptions& options);

/// Of the CUDA devices; none: not known.
struct GpuKind {
  std::optional<int> compute_capability;
  std::optional<Bytes> memory = {};  ///< that a process has beside its context
};

/// Fills in what the runtime did not decide: batch, loss, clipping, optimizer, attention, dropout.
/// `job` is job_of(options). What nobody said is added to setup.assumed. Throws Error naming the
/// option.
void apply_pytorch_options(const PytorchOptions& options, const JobOptions& given, const Job& job,
                           const GpuKind& gpu, const Model& model, eager::TrainingSetup& setup);

}  // namespace shardscope
