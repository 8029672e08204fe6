#include "core/pytorch/parallel/model_shape.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "core/base/error.h"

namespace shardscope::eager::parallel {
namespace {

Error not_known(const Model& model, std::string what) {
  return Error({.where = "--model",
                .what = fmt::format("{} {}, which torchtitan's Llama has not", model.class_name,
                                    std::move(what)),
                .way_out = "give a Llama, or another --runtime"});
}

}  // namespace

LlamaShape llama_shape(const Model& model) {
  if (!model.decoder || model.decoder->blocks.empty())
    throw not_known(model, "is no decoder of a kind that is known here");
  const Decoder& decoder = *model.decoder;
  const DecoderBlock& first = decoder.blocks.front();
  for (const DecoderBlock& block : decoder.blocks) {
    if (block.mlp != MlpKind::swiglu || block.mlp_in.size() != 2)
      throw not_known(model, "has a feed-forward without SwiGLU");
    if (block.attention_norm.kind != NormKind::rms_norm) throw not_known(model, "has LayerNorm");
    if (block.qkv.size() != 3 || block.qkv[0].bias || block.attention_out.bias)
      throw not_known(model, "has a fused or biased attention projection");
  }
  if (!decoder.rope) throw not_known(model, "has no rotary positions");
  if (decoder.heads * decoder.head_dim != decoder.width)
    throw not_known(model, "has heads that do not make up its width");
  if (decoder.head.weight == decoder.token_embedding)
    throw not_known(model, "ties its embedding and output");
  return {.dim = decoder.width,
          .layers = static_cast<std::int64_t>(decoder.blocks.size()),
          .heads = decoder.heads,
          .kv_heads = decoder.kv_heads,
          .hidden = first.mlp_in[0].out,
          .vocab = decoder.vocabulary};
}

}  // namespace shardscope::eager::parallel
