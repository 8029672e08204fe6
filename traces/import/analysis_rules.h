// The rules that say what events and memory are for: shown, edited, and kept in one file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "traces/import/classification.h"
#include "traces/import/snapshot_categories.h"

namespace shardscope {

struct AnalysisRules {
  ClassRules events;
  FrameRules memory;
  bool operator==(const AnalysisRules&) const = default;
};

AnalysisRules analysis_rules(Definitions definitions = Definitions::own);

/// {"events": [as parse_class_rules], "memory": [{"file": "optimizer.py", "function": "step",
/// "category": "optimizer_states"}]}, or the events' list alone. What is not there stays as the
/// definitions have it. Throws Error with file, line and key.
AnalysisRules read_analysis_rules(const std::filesystem::path& path, Definitions definitions);
AnalysisRules parse_analysis_rules(std::string_view text, std::string_view file_name,
                                   Definitions definitions);
std::string to_json(const AnalysisRules& rules);

}  // namespace shardscope
