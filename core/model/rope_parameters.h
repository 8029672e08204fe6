// Rotary embedding parameters of a config.json, in transformers 5's form (rope_parameters) or the
// older ones (rope_theta, rope_scaling).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/model/config_reader.h"
#include "core/model/model.h"

namespace shardscope {

struct RopeParameters {
  std::optional<Rope> rope;      ///< absent: a kind that the native runtime lacks
  std::string why_not;           ///< then: the reason
  std::int64_t frequencies = 0;  ///< length of inv_freq
};

/// Source: transformers 5.23, modeling_rope_utils.py, convert_rope_params_to_dict and
/// standardize_rope_params.
RopeParameters read_rope_parameters(const ConfigReader& config, std::int64_t head_dim,
                                    std::int64_t max_positions);

}  // namespace shardscope
