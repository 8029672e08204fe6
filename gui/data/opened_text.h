// What opening a file came to, in a line for people, and what they must know before they read it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gui/data/scenario.h"

namespace shardscope::gui {

/// "Opened run: full_shard x2 (predicted: 1 rank, 212 spans; profiled: 2 ranks, 1,204 spans)"; of
/// several scenarios how many there are, and the first of them.
std::string opened_text(const std::filesystem::path& path,
                        const std::vector<ScenarioPointer>& scenarios);

/// Why its figures do not stand for the whole run: records that were lost, a history whose
/// beginning is missing, a file that ends early, nothing that can be drawn. One line each; none of
/// a whole one.
std::vector<std::string> incomplete(const Scenario& scenario);

}  // namespace shardscope::gui
