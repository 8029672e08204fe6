// Figures of memory timelines in the shape of the recordings' golden files.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace shardscope::recordings {

/// Of a raw timeline, as ../shared/data/traces has it.
nlohmann::ordered_json memory_timeline_json(const std::filesystem::path& path);

/// Of a raw timeline and the one of the same name without ".raw", as
/// ../shared/data/pytorch/kineto has them.
nlohmann::ordered_json memory_timelines_json(const std::filesystem::path& raw_path);

}  // namespace shardscope::recordings
