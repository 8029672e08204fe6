// Reads the programs in an export of a model.
#pragma once

#include "core/format/json_reader.h"
#include "core/model/exported_step.h"
#include "core/model/model.h"

namespace shardscope {

/// `programs` of an export of `model`. Throws Error with file, line and key for whatever does not
/// fit together.
ExportedStep read_exported_step(const JsonValue& programs, const Model& model);

}  // namespace shardscope
