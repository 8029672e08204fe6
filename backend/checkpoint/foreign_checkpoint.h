// Checkpoints of other libraries, as named tensors: torch.distributed.checkpoint (FSDP1, FSDP2),
// accelerate's save_state, the Trainer's folders, DeepSpeed's ZeRO. Their pickles are read as data.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/model.h"

namespace shardscope {

/// The states of a parameter that are read, as torch's optimizers name them.
inline constexpr std::array<std::string_view, 3> states_of_torch{"exp_avg", "exp_avg_sq",
                                                                 "momentum_buffer"};

/// More training steps than this are refused.
inline constexpr std::int64_t most_steps = 1'000'000'000'000;

/// A tensor of floating-point numbers in another library's files.
struct ForeignTensor {
  Shape shape;
  /// Elements [first, first + out.size()), as float. Throws Error: a damaged storage, a stretch
  /// that no file holds.
  std::function<void(std::int64_t first, std::span<float> out)> read;
};

/// Its files are opened when they are read, and must stay. Not for two threads at once.
struct ForeignCheckpoint {
  std::filesystem::path folder;
  std::string format;    ///< "dcp", "accelerate", "deepspeed"
  std::string strategy;  ///< "zero2"; empty: the folder does not say
  int world = 1;         ///< ranks that saved it, as far as the folder says
  /// By the name that the library gives, for example "model.transformer.wte.weight". The name of an
  /// optimizer's state has "state." before the parameter's name or number: "state.0.exp_avg".
  std::map<std::string, ForeignTensor> tensors;
  /// Where states go by number: how many parameters each param_group of the optimizer has.
  std::vector<std::int64_t> group_sizes;
  std::optional<std::int64_t> step;  ///< 0 to most_steps; none: the optimizer's, if it has one
  std::int64_t skipped_steps = 0;    ///< of them, those that changed nothing: 0 to `step`
};

/// Whether a folder looks like such a checkpoint.
bool is_foreign_checkpoint(const std::filesystem::path& folder);
/// Throws Error for what is malformed, missing, or in a layout that is not read.
ForeignCheckpoint open_foreign(const std::filesystem::path& folder);

}  // namespace shardscope
