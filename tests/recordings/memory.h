// The kind `memory`: memory of training steps by category, as PyTorch's trackers count it.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace shardscope::recordings {

/// The result of the step that the recording's settings describe, made by the product.
nlohmann::ordered_json memory_result(const nlohmann::ordered_json& recorded);

}  // namespace shardscope::recordings
