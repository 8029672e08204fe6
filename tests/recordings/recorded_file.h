// Files of recordings: JSON, gzipped or not.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace shardscope::recordings {

/// Names NAME of all NAME.json and NAME.json.gz in `folder`, sorted, without `except`.
std::vector<std::string> recorded_names(const std::filesystem::path& folder,
                                        const std::vector<std::string>& except);
/// NAME.json or NAME.json.gz; Error with the path where there is neither or it is no JSON.
nlohmann::ordered_json recorded_json(const std::filesystem::path& folder, const std::string& name);

}  // namespace shardscope::recordings
