// The mixture of DeepSeek-V3 and those after it: experts in groups, a bias beside their scores, and
// an expert that all tokens go through.
#pragma once

#include <string>
#include <string_view>

#include "core/model/config_reader.h"
#include "core/model/gated_decoder.h"
#include "core/model/model.h"

namespace shardscope {

/// A layer's feed-forward part, dense before first_k_dense_replace; `family` is how its classes
/// begin.
void build_grouped_mixture(const ConfigReader& config, const std::string& layer,
                           std::string_view family, const FeedForward& shape, Model& model);
/// What stays in float32, and the names in files.
void finish_grouped_mixtures(Model& model);

}  // namespace shardscope
