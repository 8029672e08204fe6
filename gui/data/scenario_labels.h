// What scenarios are called: short enough to be shown, and each by a name of its own.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "gui/data/scenario.h"

namespace shardscope::gui {

/// Letters of a label before the part of the path that tells it from others.
inline constexpr std::size_t most_label_letters = 80;

/// What each is called beside the others: its own label, of which more than `most_label_letters`
/// letters (UTF-8) become an ellipsis. Where labels are the same, the settings follow if they
/// differ: "full_shard x8 (batch 4 x 2, bf16_mixed)". Else the part of the paths that is nearest to
/// their ends and differs among all of these follows: "full_shard x2 (round_1)"; where no single
/// part does, as many from the end as do. What has no path keeps its label.
std::vector<std::string> labels_apart(const std::vector<ScenarioPointer>& all);

/// Its label without what `labels_apart` put behind it.
std::string own_label(const Scenario& scenario);

}  // namespace shardscope::gui
