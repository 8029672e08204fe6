// What a checkpoint holds, as its index (checkpoint.json) says it. docs/checkpoints.md has the
// format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/native/job.h"

namespace shardscope {

/// Where training stands, but for tensors. Nothing else is random: start weights are drawn by name
/// and seed, and there is no dropout.
struct TrainingProgress {
  std::int64_t step = 0;           ///< steps done
  std::int64_t skipped_steps = 0;  ///< of them, those that changed nothing
  std::int64_t next_token = 0;     ///< global token offset of the next step's first batch
  std::int64_t data_tokens = 0;    ///< size of the data that this is an offset into
  std::uint64_t seed = 0;
  double loss = 0;  ///< of the last step
  double gradient_norm = 0;
  double learning_rate = 0;
  double elapsed_s = 0;
  bool operator==(const TrainingProgress&) const = default;
};

/// How the run was laid out that wrote it; for people, and for LOCAL checkpoints.
struct CheckpointLayout {
  int world = 1;
  std::string strategy, mesh, wrap, precision;
  bool operator==(const CheckpointLayout&) const = default;
};

/// A stretch of a whole tensor ("exp_avg/wte.weight") inside a stored one. In elements.
struct StoredPiece {
  std::string tensor;
  Shape shape;                 ///< of the whole tensor
  std::int64_t key_first = 0;  ///< where it begins in the stored tensor
  std::int64_t first = 0;      ///< where it begins in the whole tensor, row-major
  std::int64_t elements = 0;
  bool operator==(const StoredPiece&) const = default;
};

/// A tensor of a safetensors file.
struct StoredKey {
  std::string key;
  Dtype dtype = Dtype::float32;
  std::vector<std::uint32_t> crc32;  ///< of each `checksum_chunk` bytes
  std::vector<StoredPiece> pieces;
  bool operator==(const StoredKey&) const = default;
};

struct StoredFile {
  std::string name;  ///< in the checkpoint's folder
  std::int64_t bytes = 0;
  std::uint32_t header_crc32 = 0;
  std::vector<StoredKey> keys;
  bool operator==(const StoredFile&) const = default;
};

struct CheckpointIndex {
  CheckpointKind kind = CheckpointKind::sharded;
  TrainingProgress progress;
  CheckpointLayout layout;
  std::string job;  ///< JSON text of the run's job
  std::vector<StoredFile> files;
  bool operator==(const CheckpointIndex&) const = default;
};

inline constexpr std::string_view checkpoint_index_name = "checkpoint.json";
/// In the header of a file that a rank wrote: its keys, as the index will have them.
inline constexpr std::string_view keys_metadata = "shardscope.keys";

/// "parameters/wte.weight" and its likes: state, then parameter.
inline constexpr std::string_view parameters_state = "parameters";
std::string tensor_name(std::string_view state, std::string_view parameter);
struct StateAndParameter {
  std::string_view state, parameter;
};
/// Views of `tensor`; the state is empty where there is none.
StateAndParameter split_tensor_name(std::string_view tensor);

std::string keys_to_json(const std::vector<StoredKey>& keys);
/// Sizes and numbers are checked; throws Error.
std::vector<StoredKey> keys_of_json(const JsonValue& keys);

/// The text of checkpoint.json. Its first line has the checksum of the rest.
std::string to_json(const CheckpointIndex& index);
/// Throws Error for a damaged or malformed index.
CheckpointIndex read_checkpoint_index(const std::filesystem::path& folder);

}  // namespace shardscope
