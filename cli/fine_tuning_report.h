// What `shardscope validate` prints of fine-tuning runs: memory.
#pragma once

#include <span>
#include <string>

#include "cli/terminal.h"
#include "sim/validate/fine_tuning_validation.h"

namespace shardscope {

/// Errors and judgements by source, and why rows were not compared; with `every_row` a line for
/// each row before that.
std::string fine_tuning_text(std::span<const ValidatedFineTuning> rows, bool every_row,
                             const Painter& painter);
/// Schema "shardscope.validate-memory/1".
std::string fine_tuning_json(std::span<const ValidatedFineTuning> rows);

}  // namespace shardscope
