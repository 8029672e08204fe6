// What `shardscope model` prints for people.
#pragma once

#include <string>

#include "cli/model_report.h"
#include "cli/terminal.h"

namespace shardscope {

/// Parameters that are alike but for the number of their layer stand in one row; units likewise.
std::string text_of(const ModelReport& report, bool with_modules, const Painter& painter);

}  // namespace shardscope
