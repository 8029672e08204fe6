// Mixtures of experts of published runs: what their rows say of them, and those known by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardscope {

struct PublishedRow;

/// The experts of a layer.
struct ExpertShape {
  std::int64_t experts = 0;       ///< routed
  std::int64_t chosen = 0;        ///< of them, for a token
  std::int64_t inner = 0;         ///< feed-forward columns of one
  std::int64_t shared = 0;        ///< that all tokens pass, played as one wide expert
  std::int64_t dense_layers = 0;  ///< the first ones, which have a feed-forward part instead
  bool operator==(const ExpertShape&) const = default;
};

/// Attention over latents (arXiv:2405.04434, section 2.1).
struct LatentShape {
  std::int64_t query_rank = 0;                    ///< 0: queries straight from the hidden states
  std::int64_t rank = 0;                          ///< of keys and values
  std::int64_t plain = 0, rotary = 0, value = 0;  ///< of a head
  bool operator==(const LatentShape&) const = default;
};

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
