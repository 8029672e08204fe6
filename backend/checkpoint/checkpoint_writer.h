// Writes the files of a checkpoint. A checkpoint is there once its folder has its name: until then
// it is a partial folder that nobody reads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/checkpoint/checkpoint_index.h"

namespace shardscope {

/// A tensor of a file, in memory. The checksums of `key` are filled in when it is written.
struct TensorToWrite {
  StoredKey key;
  Shape shape;  ///< as it is stored
  std::span<const std::byte> bytes;
};

/// "shard-00000-of-00008.safetensors".
std::string shard_file_name(int rank, int world);

/// One file, whole or not at all, on the disk when this returns. Its header has `keys_metadata`.
StoredFile write_shard_file(const std::filesystem::path& folder, const std::string& name,
                            std::vector<TensorToWrite> tensors);
/// The entry of such a file, from its header.
StoredFile read_shard_file(const std::filesystem::path& folder, const std::string& name);

/// Waits until every rank's file is there, and gives the entries. `failure` is asked meanwhile for
/// why a part does not come. Throws Error (ExitCode::outside) with that, or naming the ranks whose
/// file did not come within `limit`.
std::vector<StoredFile> wait_for_shard_files(
    const std::filesystem::path& folder, int world, std::chrono::milliseconds limit,
    const std::function<std::optional<std::string>()>& failure);

}  // namespace shardscope
