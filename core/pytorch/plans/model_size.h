// The sizes that `accelerate estimate-memory` tells of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/quantities.h"
#include "core/model/model.h"

namespace shardscope {

/// Sizes of a model in float32 on the meta device, where ties are not made: a shared parameter
/// counts once per place. Buffers that are not saved count too.
struct ModelSizes {
  std::int64_t parameter_elements = 0;
  Bytes total;
  Bytes largest_layer;
  std::vector<std::string> largest_layers;  ///< all of that size
  /// Of every module, parameter and buffer by name; "" is the whole. In the order in which the
  /// names first occur.
  std::vector<std::pair<std::string, Bytes>> by_name;
};

/// compute_module_sizes and calculate_maximum_sizes. A layer is a module without children, or of a
/// class that must not be split. Source: accelerate 1.15.0 utils/modeling.py.
ModelSizes model_sizes(const Model& model);

/// One row of the command's table.
struct LoadEstimate {
  std::string dtype;         ///< "float32", "float16", "int8", "int4"
  double largest_layer = 0;  ///< bytes
  double total = 0;          ///< bytes
  /// Training with Adam: parameters, optimizer states, gradients, and the step that holds most.
  /// Absent for int8 and int4.
  struct Training {
    Bytes model, optimizer, gradients, step;
  };
  std::optional<Training> training;
};

/// gather_data: a row per dtype. Source: accelerate 1.15.0 commands/estimate.py.
std::vector<LoadEstimate> load_estimates(const ModelSizes& sizes,
                                         const std::vector<std::string>& dtypes);

/// The table that the command prints, line by line.
std::vector<std::string> load_estimate_table(std::string_view model_name,
                                             const std::vector<LoadEstimate>& rows);

/// convert_bytes: "417.65 MB" with units of 1024 and two digits; an int below 1024 stays one ("0
/// bytes"). Source: accelerate 1.15.0 utils/other.py.
std::string converted_bytes(double bytes, bool whole);

}  // namespace shardscope
