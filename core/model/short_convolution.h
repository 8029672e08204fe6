// LFM2's short convolution, in the place of attention. Source: transformers 5.24,
// models/lfm2/modeling_lfm2.py.
#pragma once

#include <string>
#include <string_view>

#include "core/model/config_fields.h"
#include "core/model/config_reader.h"
#include "core/model/gated_decoder.h"

namespace shardscope {

/// What LFM2 and its mixture of experts differ in is their name, and the feed-forward part.
GatedDecoder short_convolution_decoder(std::string_view name);

/// w1, w3 and w2 of a module "feed_forward" of this class.
void add_numbered_feed_forward(Model& model, const std::string& name, std::string_view class_name,
                               const FeedForward& shape);

/// tie_embedding and block_ff_dim, older names; and layer_types by full_attn_idxs.
void complete_short_convolutions(ConfigFields& fields);

}  // namespace shardscope
