// The kind `operators`: one training step of a Hugging Face model, operator by operator.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace shardscope::recordings {

/// The tables of a recording, made by the product for the case that `recorded` describes.
nlohmann::ordered_json operators_result(const nlohmann::ordered_json& recorded);

}  // namespace shardscope::recordings
