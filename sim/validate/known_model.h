// Models that tables call by name, as the config.json that their repositories publish.
#pragma once

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

/// By a name as people write it: "Llama 2 7 B", "Meta-Llama-3.1-8B", "Qwen2.5-7B-Instruct". None
/// for a name that is not in the table. `may_tie`: false where a program keeps the head apart from
/// the embedding in any case.
std::optional<KnownModel> known_model(std::string_view name, bool may_tie = true);

}  // namespace shardscope
