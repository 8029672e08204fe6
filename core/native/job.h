// A training job as its JSON file describes it (`shardscope train --help-job` lists every key with
// its default).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/native/learning_rate.h"
#include "core/pipeline/choice.h"
#include "core/schedule/strategy.h"

namespace shardscope {

enum class StartWeights : std::uint8_t {
  random,
  pretrained,
  automatic  ///< pretrained where the folder of the model has weights, else random
};
enum class CommunicatorChoice : std::uint8_t { automatic, shared_memory, mpi, nccl };
enum class TokenFormat : std::uint8_t { automatic, text, uint16, llm_c };

/// What a device is asked to record in a window.
enum class ProfileRecords : std::uint8_t {
  kernels,  ///< kernels, copies and sets; memory that is taken, which steps do not do; overhead
  all       ///< besides: the host's calls, its waits, the streams' events
};

/// Steps in which everything is measured, in the middle of a run.
struct ProfileWindows {
  std::int64_t start = 0;  ///< first step of the first window, from 1; 0: only when asked for
  int steps = 5;           ///< of a window, also of one that is asked for by a signal
  std::int64_t every = 0;  ///< a window begins so many steps after the one before; 0: only one
  bool operator==(const ProfileWindows&) const = default;
};

/// How a checkpoint is laid out (docs/checkpoints.md).
enum class CheckpointKind : std::uint8_t {
  sharded,  ///< each rank writes its part of every tensor
  full,     ///< rank 0 writes whole tensors, the model as a folder that transformers loads
  local     ///< each rank writes its flat storage as it is
};
std::string_view name_of(CheckpointKind kind);
/// Throws Error naming `where` and the choices.
CheckpointKind parse_checkpoint_kind(std::string_view text, std::string_view where);

/// When a run is saved, how, and which checkpoints stay.
struct CheckpointPlan {
  std::int64_t every = 0;       ///< steps; 0: never
  std::int64_t keep = 3;        ///< the newest so many stay; 0: all
  std::int64_t keep_every = 0;  ///< those whose step is a multiple stay as well; 0: none
  CheckpointKind kind = CheckpointKind::sharded;
  bool operator==(const CheckpointPlan&) const = default;
};

/// What happens where a step's loss or gradient norm is not finite. The step changes nothing then.
enum class NotFinitePolicy : std::uint8_t {
  stop,  ///< the run ends (ExitCode::not_finite)
  skip,  ///< the run goes on with the next batch
  rerun  ///< the step runs again; where it is finite then, the machine was at fault
};

/// "START[:STEPS[:EVERY]]"; `where` stands in errors.
ProfileWindows parse_profile_windows(std::string_view text, std::string_view where);

struct Job {
  std::filesystem::path model;  ///< Hugging Face folder or config.json
  StartWeights weights = StartWeights::automatic;
  std::vector<std::filesystem::path> data;  ///< text files or folders (as bytes), .bin token files
  TokenFormat token_format = TokenFormat::automatic;
  std::int64_t token_start = 0;  ///< global token offset of the first batch
  std::int64_t steps = 10;
  std::int64_t batch = 1;  ///< sequences per rank and micro-batch
  std::int64_t seq = 128;
  int accumulate = 1;
  std::uint64_t seed = 1;
  Optimizer optimizer;
  LearningRate learning_rate;
  double clip = 1.0;                   ///< 0: no clipping (JSON: null)
  std::vector<std::string> trainable;  ///< regular expressions on parameter names; empty: all
  Strategy strategy;
  PipelineChoice pipeline;  ///< where strategy.mesh has a pipeline
  Bytes memory_budget;      ///< of the arena, for checkpointing to be chosen by; 0: none
  /// Where strategy.runtime is one of PyTorch's: as --precision and --checkpointing take them.
  std::string pytorch_precision = "fp32", pytorch_checkpointing = "none";
  /// There, too: further options of `simulate` by name and value ("attention", "eager"). Values of
  /// `pytorch_files` are paths.
  std::vector<std::pair<std::string, std::string>> pytorch;
  std::string cluster;  ///< profile of predictions, a ready one's name or a file; empty: not said
  bool precision_given = false;  ///< else the device's usual one is taken for strategy.precision
  int ranks = 1;                 ///< processes to start on this host
  CommunicatorChoice communicator = CommunicatorChoice::automatic;
  std::string device = "auto";  ///< auto: "cuda" where a GPU is there and can run it, else "cpu"
  int threads = 0;              ///< compute threads per rank; 0: cores / ranks of this host
  bool check = false;           ///< checking mode: canaries, poison, allocation count
  bool save_model = true;
  int profile_steps = 10;  ///< at the end of the run, each operation timed for the trace
  ProfileWindows profile;
  ProfileRecords profile_records = ProfileRecords::kernels;
  CheckpointPlan checkpoint;
  NotFinitePolicy on_not_finite = NotFinitePolicy::stop;
  double timeout_s = 60;         ///< longest wait in a collective
  bool deterministic = false;    ///< NCCL adds in one order, whatever the size
  std::filesystem::path output;  ///< run folder; empty: the caller chooses one
};

inline constexpr std::array<std::string_view, 6> pytorch_files{
    "accelerate", "deepspeed", "training_arguments", "fsdp_config", "config", "peft"};

/// Reads and checks a job file. Relative paths in it are relative to the file's folder. Throws
/// Error with file, line, key. Where it starts several `ranks`, the strategy must fit them; else
/// that is checked when the ranks are known (`resolved`).
Job read_job(const std::filesystem::path& path);
/// Every key, resolved; `read_job` of it gives the same job. Paths are absolute, but those inside
/// `folder` are relative to it.
std::string to_json(const Job& job, const std::filesystem::path& folder = {});
/// The documented schema, one key a line with type, default and meaning, generated from the same
/// table as the reader.
std::string job_help();

}  // namespace shardscope
