// The shape of a decoder that is divided over tensor, pipeline and expert ranks.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardscope {

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

struct DecoderShape {
  /// gpt2, llama, qwen2, mixtral, qwen3_moe or deepseek_v3.
  std::string_view family = "llama";
  std::int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, ffn = 0, vocabulary = 0, seq = 0;
  std::int64_t head_size = 0;
  ExpertShape experts = {};  ///< none: 0 experts; `ffn` is that of layers without experts
  LatentShape latents = {};  ///< of deepseek_v3
  bool operator==(const DecoderShape&) const = default;
};

}  // namespace shardscope
