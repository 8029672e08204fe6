// Models that tables call by name, as the config.json that their repositories publish.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/format/json_reader.h"
#include "core/model/model.h"

namespace shardscope {

struct KnownModel {
  std::string name;  ///< "llama-2-7b"
  Model model;
  JsonValue config;
};

/// In what a program's own model differs from transformers'.
struct KnownModelForm {
  bool may_tie = true;      ///< false: the head is never the embedding
  bool fused_gelu = false;  ///< one operator where transformers writes GELU out (Phi)
  /// Phi-3 with the projections of Mistral, as Unsloth publishes it.
  bool splits_projections = false;
  /// The program whose own models these are. The table has its name in front: "torchaollama21b".
  std::string_view own_of = {};
  /// litgpt's GPT in the place of llama, mistral, phi, gemma and gpt_neox.
  bool litgpt = false;
  /// max_position_embeddings as they are published; false: 131,072.
  bool published_positions = false;
};

/// By a name as people write it: "Llama 2 7 B", "Meta-Llama-3.1-8B", "Qwen2.5-7B-Instruct". None
/// for a name that is not in the table.
std::optional<KnownModel> known_model(std::string_view name, const KnownModelForm& form = {});

}  // namespace shardscope
