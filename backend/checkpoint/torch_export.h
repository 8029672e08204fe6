// A checkpoint written as PyTorch's libraries write theirs, so that their own loading goes on from
// it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "backend/checkpoint/checkpoint.h"
#include "backend/checkpoint/torch_state.h"

namespace shardscope {

/// Writes `.metadata` and `__0_0.distcp` that torch.distributed.checkpoint loads: "model.NAME" and
/// "optim.state.NAME.exp_avg", exp_avg_sq, step, as get_state_dict names them. Tied parameters are
/// there under all their names, where the checkpoint has its config.json. "optim.param_groups" is
/// there where a job of ours saved the checkpoint. Throws Error.
void export_dcp(Checkpoint& from, const std::filesystem::path& place);

enum class TorchLibrary : std::uint8_t { accelerate, trainer };
/// How the job that goes on is parallel. Its kind decides which files the libraries look for.
enum class TorchParallel : std::uint8_t {
  fsdp,       ///< FSDP1 or FSDP2 with SHARDED_STATE_DICT
  fsdp_full,  ///< the same with FULL_STATE_DICT
  ddp         ///< DDP, or one process
};

struct TorchFolder {
  TorchLibrary library = TorchLibrary::accelerate;
  TorchParallel parallel = TorchParallel::fsdp;
  TorchGrouping grouping = TorchGrouping::by_decay;
  int world = 1;  ///< ranks that go on
};

/// What `Accelerator.load_state` or `Trainer.train(resume_from_checkpoint=...)` reads: parameters,
/// the optimizer with its param_groups, the schedule, the Trainer's step, and random states for a
/// script that draws numbers, which our training does not. Throws Error (bad_input) for
/// a checkpoint that no job of ours saved: it does not say the optimizer's settings.
void export_for_library(Checkpoint& from, const TorchFolder& how,
                        const std::filesystem::path& place);

}  // namespace shardscope
