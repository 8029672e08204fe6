// What `validate` found, for people and for scripts.
#pragma once

#include <span>
#include <string>

#include "cli/terminal.h"
#include "sim/validate/validation.h"

namespace shardscope {

/// Errors by source and together, then the reasons for which rows were skipped; with `every_row` a
/// line for each row before that.
std::string validation_text(std::span<const ValidatedRow> rows, bool every_row,
                            const Painter& painter);

/// The object of docs/cli.md.
std::string validation_json(std::span<const ValidatedRow> rows);

}  // namespace shardscope
