// Writes a safetensors file of a checkpoint whose tensors are made piece by piece.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backend/checkpoint/checkpoint_index.h"

namespace shardscope {

/// A tensor of the file. The checksums of `key` are made while it is written.
struct StreamedTensor {
  StoredKey key;  ///< float32 or bfloat16
  Shape shape;    ///< as it is stored
  /// Fills `out` with elements [first, first + out.size()) of the stored tensor. Called on a thread
  /// of its own, by one at a time.
  std::function<void(std::int64_t first, std::span<float> out)> values;
};

/// Whole or not at all. No more than 16 MiB of values are in memory at once.
StoredFile stream_file(const std::filesystem::path& folder, const std::string& name,
                       std::vector<StreamedTensor> tensors);

}  // namespace shardscope
