// Mixtures of experts of published runs: what their rows say of them, and those known by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/config/megatron/decoder_shape.h"

namespace shardscope {

struct PublishedRow;

/// "768 x 128 experts, top-8": columns of an expert, experts, and how many a token has. None where
/// the text is no such thing, or has numbers that are out of range.
std::optional<ExpertShape> stated_experts(std::string_view text);

/// Fills in what a row leaves blank of a mixture that its model's name says ("deepseekv3 (4-layer
/// cut)"); nothing where it states its hidden size.
void fill_known_mixture(PublishedRow& row);

/// GPUs among which the experts of a layer are divided: "EP8"; 1 where the row does not say.
std::int64_t expert_ranks(const PublishedRow& row);

/// What of the row's experts cannot be played; "": nothing.
std::string_view why_no_experts(const PublishedRow& row);

}  // namespace shardscope
