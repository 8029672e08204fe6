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
  double timeout_s = 60;         ///< longest wait in a collective
  bool deterministic = false;    ///< NCCL adds in one order, whatever the size
  std::filesystem::path output;  ///< run folder; empty: the caller chooses one
};

inline constexpr std::array<std::string_view, 4> pytorch_files{"accelerate", "deepspeed",
                                                               "training_arguments", "fsdp_config"};

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
