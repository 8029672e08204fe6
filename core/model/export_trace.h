// The traced forward in an export of a model.
#pragma once

#include "core/format/json_reader.h"
#include "core/model/model.h"

namespace shardscope {

/// Checks every operator, tensor and storage, and counts them by module of `model`.
ModelTrace read_trace(const JsonValue& trace, const Model& model);

}  // namespace shardscope
