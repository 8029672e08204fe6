// The first difference between two JSON values, in words.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace shardscope::recordings {

/// "parameters[3][1][0]: expected 24, got 72"; empty where both are equal. Keys of objects are
/// compared in order.
std::string json_difference(const std::string& path, const nlohmann::ordered_json& expected,
                            const nlohmann::ordered_json& got);

}  // namespace shardscope::recordings
