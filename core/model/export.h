// A model as examples/pytorch/export_model.py describes it: schema shardscope.model_export/1.
#pragma once

#include <string_view>

#include "core/format/json_reader.h"
#include "core/model/model.h"

namespace shardscope {

inline constexpr std::string_view model_export_schema = "shardscope.model_export/1";

/// Everything that the export says, checked: names in pre-order, each once; shared objects earlier
/// and of the same shape; places in tables. Throws Error with file, line and key.
Model model_of_export(const JsonValue& exported);

}  // namespace shardscope
