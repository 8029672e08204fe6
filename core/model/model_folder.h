// Writes a model as a folder that transformers loads: config.json, generation_config.json and
// safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "core/format/json_reader.h"
#include "core/model/model.h"

namespace shardscope {

/// Fills `out` with elements [first, first + out.size()) of a parameter, row-major.
using ParameterSource =
    std::function<void(ParameterId parameter, std::int64_t first, std::span<float> out)>;

/// A piece of one parameter, as the source will be asked for it.
struct ParameterPiece {
  ParameterId parameter;
  std::int64_t first = 0;
  std::int64_t elements = 0;
  bool operator==(const ParameterPiece&) const = default;
};

/// The pieces in the order in which `write_model_folder` asks for them, so that ranks that only
/// take part in gathering them can follow. No piece has more than 2^22 elements.
std::vector<ParameterPiece> pieces_to_write(const Model& model);

/// Writes the weights in float32, whatever the config's dtype; a tied head is left out. Every file
/// is written atomically, config.json last. `config` is the one that the model was read from.
/// Throws Error (ExitCode::outside).
void write_model_folder(const std::filesystem::path& folder, const Model& model,
                        const JsonValue& config, const ParameterSource& source);

}  // namespace shardscope
