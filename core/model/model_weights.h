// The weights in a Hugging Face folder, found for the parameters of a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/format/safetensors.h"
#include "core/model/model.h"

namespace shardscope {

/// Whether the folder has model.safetensors, or model.safetensors.index.json.
bool has_weights(const std::filesystem::path& folder);
/// The name of a file of weights in a format that is not read: PyTorch's pickles. None where there
/// is no such file, or the folder has weights that are read.
std::optional<std::string> unread_weights(const std::filesystem::path& folder);
/// model.safetensors, or the files of the index, sorted by name. Throws Error where there is
/// neither.
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& folder);

/// All parameters of a model in model.safetensors, or in the files of model.safetensors.index.json.
/// Files of a base model (names without "transformer.") are understood, and so is a tied parameter
/// under its later name.
class ModelWeights {
 public:
  /// Throws Error naming file and tensor: missing, another shape, not floating-point, a broken
  /// file.
  ModelWeights(const std::filesystem::path& folder, const Model& model);

  /// Elements [first, first + out.size()) of a parameter, row-major, as float.
  void read(ParameterId parameter, std::int64_t first, std::span<float> out) const;

 private:
  struct Place {
    std::size_t file = 0;
    const SafetensorsTensor* tensor = nullptr;
  };
  Place place_of(const Model& model, const Parameter& parameter) const;

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  std::vector<Place> places_;  ///< by parameter
};

}  // namespace shardscope
