// A machine's figures in words, as controls, charts and labels say them.
#pragma once

#include <string>
#include <string_view>

#include "sim/hardware/scaled_profile.h"

namespace shardscope::gui {

/// "FLOP rate" of "flop_rate"; a name that `machine_figures` does not have stays as it is.
std::string_view machine_words(std::string_view figure);

/// The factors that are not 1: "memory rate x 0.5, link rate x 3"; "" of none.
std::string scales_text(const MachineScales& scales);

}  // namespace shardscope::gui
