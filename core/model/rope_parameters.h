// Rotary embedding parameters of a config.json, in transformers 5's form (rope_parameters) or the
// older ones (rope_theta, rope_scaling).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/model/config_reader.h"
#include "core/model/model.h"

namespace shardscope {

/// How a config class spells its rotary parameters outside rope_parameters, with their defaults as
/// JSON (empty: none). Source: transformers 5.23, convert_rope_params_to_dict.
struct RopeKeys {
  std::string_view theta = "rope_theta";
  std::string_view default_theta = "10000.0";
  std::string_view partial = "partial_rotary_factor";
  std::string_view default_partial;
  bool keeps_partial = false;  ///< the outer key is left standing when the config is written
  /// Whether the plain rotary embedding turns only that part of a head, in transformers 5.
  bool default_is_partial = false;
  /// Phi-3: types "su" and "yarn" mean longrope, and no other scaling is taken.
  bool only_longrope = false;
  /// head_dim is a field of the config that stays null: scalings that multiply it then fail.
  bool null_head_dim = false;
};

struct RopeParameters {
  std::optional<Rope> rope;      ///< absent: a kind that the native runtime lacks
  std::string why_not;           ///< then: the reason
  std::int64_t frequencies = 0;  ///< length of inv_freq
};

/// Error where transformers refuses: an unknown rope_type, a missing key of a known one, an odd
/// head_dim over 4 (release 5). Source: transformers 5.23 and 4.57.6, modeling_rope_utils.py.
RopeParameters read_rope_parameters(const ConfigReader& config, const RopeKeys& keys,
                                    std::int64_t head_dim, std::int64_t max_positions);

}  // namespace shardscope
