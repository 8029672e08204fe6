// A decoder by its shape alone, and the part of it that one rank holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/megatron/decoder_shape.h"
#include "core/format/json_reader.h"
#include "core/model/model.h"

namespace shardscope {

struct ShapedModel {
  Model model;
  JsonValue config;  ///< as the config.json of its family has the shape
  std::vector<std::string> assumed = {};
};

/// `dropout` goes to attention and residual stream of a gpt2; `tied`: the head is the embedding
/// again. Throws Error where shapes do not divide.
ShapedModel model_of_shape(const DecoderShape& shape, double dropout, bool tied);

/// The shape with `layers` layers, embedding and head included. In a part of a mixture all layers
/// have experts, also those that have none in the model: they are as wide as a token's experts
/// together.
DecoderShape with_layers(DecoderShape shape, std::int64_t layers);

/// What one of `ranks` holds of these layers where they are divided as Megatron divides them:
/// heads, feed-forward layers and vocabulary in equal parts, all else whole. Source: Megatron-LM
/// core/tensor_parallel/layers.py; arXiv:1909.08053, section 3.
ShapedModel tensor_part(DecoderShape shape, std::int64_t ranks, double dropout, bool tied);

/// What one of `ranks` holds of these layers where experts are divided among them, all else whole.
/// It has at least as many experts as a token is sent to. So they get as many rows as the rank
/// sends, which is what they get from all ranks where loads are even.
ShapedModel expert_part(DecoderShape shape, std::int64_t ranks, double dropout, bool tied);

/// Whether the head is the embedding again.
bool is_tied(const ShapedModel& model);

}  // namespace shardscope
