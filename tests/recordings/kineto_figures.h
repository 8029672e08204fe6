// Figures of a traced training in the shape of ../shared/data/pytorch/kineto's golden.json.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "traces/import/imported_trace.h"

namespace shardscope::recordings {

/// One rank's part.
nlohmann::ordered_json rank_json(const ImportedTrace& trace);

/// An execution trace's part.
nlohmann::ordered_json execution_json(const std::filesystem::path& path);

}  // namespace shardscope::recordings
