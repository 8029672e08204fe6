// The model of a published run: the row's shape as a config.json of a family that is known.
#pragma once

#include <string>
#include <vector>

#include "core/format/json_reader.h"
#include "core/model/model.h"
#include "sim/validate/published_row.h"

namespace shardscope {

struct PublishedModel {
  Model model;
  JsonValue config;
  std::vector<std::string> assumed;
};

/// What of the shape the row does not state; "" where nothing is missing.
std::string missing_shape(const PublishedRow& row);

/// MPT and GPT-3-like models are gpt2, those with gated layers llama or qwen2: by the model's name,
/// else by whether ffn is four times hidden. Mixtures of experts are deepseek_v3 where their
/// attention has latents, else qwen3_moe or mixtral. The head is tied where that comes nearer to
/// params_b. `dropout` goes to attention and residual stream of a gpt2. Throws Error where shapes
/// do not divide, and where the shape makes another number of parameters than params_b (a fifth
/// off).
PublishedModel published_model(const PublishedRow& row, double dropout);

/// The same with `layers` layers, embedding and head included. In a part of a mixture all layers
/// have experts, also those that have none in the model: they are as wide as a token's experts
/// together.
PublishedModel with_layers(const PublishedRow& row, const PublishedModel& model, int layers,
                           double dropout);

/// What one of `ranks` holds of these layers where they are divided as Megatron divides them:
/// heads, feed-forward layers and vocabulary in equal parts, all else whole. Source: Megatron-LM
/// core/tensor_parallel/layers.py; arXiv:1909.08053, section 3.
PublishedModel tensor_part(const PublishedRow& row, const PublishedModel& model, int layers,
                           std::int64_t ranks, double dropout);

/// What one of `ranks` holds of these layers where experts are divided among them, all else whole.
/// It has at least as many experts as a token is sent to. So they get as many rows as the rank
/// sends, which is what they get from all ranks where loads are even.
PublishedModel expert_part(const PublishedRow& row, const PublishedModel& model, int layers,
                           std::int64_t ranks, double dropout);

/// Whether the head is the embedding again.
bool is_tied(const PublishedModel& model);

}  // namespace shardscope
