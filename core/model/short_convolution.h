// LFM2's short convolution, in the place of attention. Source: transformers 5.24,
// models/lfm2/modeling_lfm2.py.
#pragma once

#include <string>
#include <string_view>

#include "core/model/config_fields.h"
#include "core/model/config_reader.h"
#include "core/model/gated_decoder.h"

namespace shardscope {

/// LFM2 and its mixture of experts differ in name and feed-forward part.
GatedDecoder short_convolution_decoder(std::string_view name);

/// w1, w3 and w2 of a module "feed_forward" of this class.
void add_numbered_feed_forward(Model& model, const std::string& name, std::string_view class_name,
                               const FeedForward& shape);

/// layer_types null: by full_attn_idxs. Without these all layers have attention.
void complete_short_convolutions(ConfigFields& fields);

}  // namespace shardscope
