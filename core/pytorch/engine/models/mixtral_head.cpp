// Mixtral's and Qwen3-MoE's head, with the loss that balances its experts. Source:
// transformers 5.23, models/mixtral/modeling_mixtral.py.
#include <span>
#include <tuple>

#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/aten/softmax.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/heads.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5;

/// The variables of load_balancing_loss_func.
struct Balance {
  Tensor tokens, probabilities, rows, flat_mask;
  Tensor weights, values, selected;  ///< of the layer that came last
};

void count_layer(Session& s, Balance& b, const Tensor& logits, std::int64_t experts,
                 std::int64_t chosen) {
  const Dtype counted = s.settings.device == Device::cpu ? Dtype::float32 : Dtype::int32;
  b.weights = softmax(s, logits, -1);
  std::tie(b.values, b.selected) = topk(s, b.weights, chosen);
  b.tokens = add(s, b.tokens, histc(s, to(s, reshape(s, b.selected, {-1}), counted), experts));
  b.probabilities = add(s, b.probabilities, sum(s, to(s, b.weights, Dtype::float32), {0}));
}

/// As count_layer, without the padding.
void count_unmasked(Session& s, Balance& b, const Tensor& logits, std::int64_t experts,
                    std::int64_t chosen) {
  b.weights = softmax(s, logits, -1);
  std::tie(b.values, b.selected) = topk(s, b.weights, chosen);
  {
    const Tensor counts = zeros(s, {experts}, like(logits, Dtype::float32));
    const Tensor places = reshape(s, b.selected, {-1});
    b.tokens = add(s, b.tokens,
                   scatter_add_(s, counts, places, repeat_interleave(s, b.flat_mask, chosen, 0)));
  }
  Tensor wide = to(s, b.weights, Dtype::float32);
  Tensor counted = mul(s, std::move(wide), unsqueeze(s, b.flat_mask, -1));
  b.probabilities = add(s, b.probabilities, sum(s, std::move(counted), {0}));
  const Tensor rows = sum(s, b.flat_mask);
  b.rows = b.rows ? add(s, b.rows, rows) : add(s, rows, 0.0);
}

/// load_balancing_loss_func.
Tensor balancing_loss(Session& s, std::span<const Tensor> layers, const Tensor& attention_mask,
                      std::int64_t chosen) {
  const std::int64_t experts = layers[0].size(-1);
  const Like kind = like(layers[0], Dtype::float32);
  Balance b{.tokens = zeros(s, {experts}, kind), .probabilities = zeros(s, {experts}, kind)};
  if (attention_mask) b.flat_mask = to(s, reshape(s, attention_mask, {-1}), Dtype::float32);
  for (const Tensor& logits : layers)
    (attention_mask ? count_unmasked : count_layer)(s, b, logits, experts, chosen);
  const auto share = [&](const Tensor& total) {
    return b.rows ? div(s, total, b.rows) : div(s, total, any_factor);
  };
  const Tensor tokens = share(b.tokens);
  const Tensor probabilities = share(b.probabilities);
  const Tensor overall = sum(s, mul(s, tokens, unsqueeze(s, probabilities, 0)));
  return mul(s, overall, experts);
}

Module::Forward mixture_language_forward(const Context& context, const Module&) {
  const std::int64_t chosen = context->config.integer("num_experts_per_tok");
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const RootArguments given(arguments);
    const Tensors base =
        call(s, module.child("model"), {{given.input_ids, given.attention_mask}, 0});
    Tensor logits;
    const Tensor hidden = alias(s, base[0]);
    logits = call_one(s, module.child("lm_head"), {hidden});
    Tensor loss, balancing;
    if (given.labels) loss = causal_language_loss(s, logits, given.labels);
    if (context->config.flag("output_router_logits")) {
      const auto layers = static_cast<std::size_t>(context->config.integer("num_hidden_layers"));
      balancing = balancing_loss(s, std::span(base).last(layers), given.attention_mask, chosen);
      if (loss) loss = add_(s, loss, mul(s, balancing, any_factor));
    }
    Tensors outputs = root_outputs(std::move(loss), std::move(logits), base);
    outputs.push_back(std::move(balancing));
    return outputs;
  };
}

constexpr ClassForward table[] = {
    {"GptOssForCausalLM", mixture_language_forward},
    {"MiniMaxM2ForCausalLM", mixture_language_forward},
    {"MixtralForCausalLM", mixture_language_forward},
    {"OlmoeForCausalLM", mixture_language_forward},
    {"Qwen2MoeForCausalLM", mixture_language_forward},
    {"Qwen3MoeForCausalLM", mixture_language_forward},
};

}  // namespace

std::span<const ClassForward> mixtral_head_forwards() { return table; }

}  // namespace shardscope::eager
