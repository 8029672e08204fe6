// Whole tensors in files: what the kind FULL writes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "backend/checkpoint/checkpoint_index.h"
#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "core/model/model_folder.h"

namespace shardscope {

/// A state of all parameters ("parameters", "exp_avg"), asked for piece by piece.
struct WholeState {
  std::string name;
  ParameterSource source;
};

/// The parameters as a folder that transformers loads (config.json, model.safetensors, with an
/// index where there are several files; tied weights left out), and every optimizer state of the
/// trained parameters in files beside them with the same keys: exp_avg.safetensors. All in float32,
/// which holds every state exactly. `config` is the one that the model was read from. Throws Error
/// (ExitCode::outside).
std::vector<StoredFile> write_whole_states(const std::filesystem::path& folder, const Model& model,
                                           const JsonValue& config,
                                           const std::vector<WholeState>& states);

}  // namespace shardscope
