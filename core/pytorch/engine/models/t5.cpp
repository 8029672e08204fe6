// T5's forwards. Source: transformers 5.23, models/t5/modeling_t5.py.
#include "core/base/error.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/attention_interface.h"
#include "core/pytorch/engine/models/heads.h"
#include "core/pytorch/engine/models/layers.h"
#include "core/pytorch/engine/models/masks.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5;

bool is_half(Dtype dtype) { return dtype == Dtype::float16 || dtype == Dtype::bfloat16; }

/// T5LayerNorm.
Tensor layer_norm_without_mean(Session& s, Module& module, const Tensor& given) {
  const Tensor& weight = module.parameter("weight");
  const Tensor variance = mean(s, pow(s, to(s, given, Dtype::float32), 2), {-1}, true);
  Tensor hidden = mul(s, given, rsqrt(s, add(s, variance, 1e-6)));
  if (is_half(weight.dtype())) hidden = to(s, hidden, weight.dtype());
  return mul(s, weight, hidden);
}

/// The last linear layer stays in float32 where the others do not.
Tensor projected_back(Session& s, Module& module, Tensor hidden) {
  Module& last = module.child("wo");
  hidden = to(s, hidden, last.parameter("weight").dtype());
  hidden = call_one(s, last, {hidden});
  return hidden;
}

/// T5DenseActDense.
Tensor dense(Session& s, Module& module, const Tensor& given) {
  Tensor hidden = call_one(s, module.child("wi"), {given});
  hidden = call_one(s, module.child("act"), {hidden});
  hidden = call_one(s, module.child("dropout"), {hidden});
  return projected_back(s, module, std::move(hidden));
}

/// T5DenseGatedActDense.
Tensor gated_dense(Session& s, Module& module, const Tensor& given) {
  Tensor opened = call_one(s, module.child("wi_0"), {given});
  const Tensor gate = call_one(s, module.child("act"), {std::move(opened)});
  const Tensor linear = call_one(s, module.child("wi_1"), {given});
  Tensor hidden = mul(s, gate, linear);
  hidden = call_one(s, module.child("dropout"), {hidden});
  return projected_back(s, module, std::move(hidden));
}

/// T5LayerFF.
Tensor feed_forward(Session& s, Module& module, const Tensor& given) {
  Tensor fed = call_one(s, module.child("layer_norm"), {given});
  fed = call_one(s, module.child("DenseReluDense"), {fed});
  return add(s, given, call_one(s, module.child("dropout"), {fed}));
}

/// {hidden states, mask, position bias, encoder's states, encoder's mask, crossing position bias}
/// to {hidden states, position bias, crossing position bias}.
Module::Forward block(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    if (arguments[0].dtype() == Dtype::float16)
      throw Error({.where = module.name,
                   .what = "T5 clamps hidden states in float16, which is not modelled",
                   .way_out = "use bf16 or fp32"});
    const auto& layers = module.child("layer").children;
    Tensors attended =
        call(s, *layers.front().module, {{arguments[0], arguments[1], arguments[2]}, 1});
    Tensor hidden = std::move(attended[0]), bias = std::move(attended[1]), crossing_bias;
    Tensor weights = std::move(attended[2]);
    if (layers.size() > 2) {
      attended =
          call(s, *layers[1].module, {{hidden, arguments[3], arguments[4], arguments[5]}, 1});
      hidden = std::move(attended[0]);
      crossing_bias = std::move(attended[1]);
      weights = std::move(attended[2]);
    }
    hidden = call_one(s, *layers.back().module, {hidden});
    return {std::move(hidden), std::move(bias), std::move(crossing_bias)};
  };
}

/// EncoderDecoderCache: the decoder's layers, then the crossing ones.
void start_caches(const Context& context) {
  context->cache = nullptr;
  if (!context->settings.use_cache) return;
  context->cache = std::make_shared<KeyValueCache>();
  context->cache->layers.resize(
      2 * static_cast<std::size_t>(context->config.integer("num_decoder_layers")));
}

/// {input ids, attention mask, encoder's states, encoder's mask}: an encoder has no use for the
/// last two.
Module::Forward stack(const Context& context, const Module& owner) {
  const bool decodes = own_name(owner.name) == "decoder";
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor embedded = call_one(s, module.child("embed_tokens"), {arguments[0]});
    if (decodes) start_caches(context);
    MaskRequest request{.embeddings = embedded, .attention_mask = arguments[1], .position_ids = {}};
    const Tensor mask = decodes ? create_causal_mask(s, context, request)
                                : create_bidirectional_mask(s, context, request);
    Tensor crossing_mask;
    if (decodes) {
      request.attention_mask = arguments[3];
      crossing_mask = create_bidirectional_mask(s, context, request);
    }
    Tensor hidden = call_one(s, module.child("dropout"), {embedded});
    Tensor bias, crossing_bias;
    for (const Module::Child& one : module.child("block").children) {
      Tensors outputs = call(s, *one.module,
                             {{hidden, mask, bias, arguments[2], crossing_mask, crossing_bias}, 6});
      hidden = std::move(outputs[0]);
      bias = std::move(outputs[1]);
      crossing_bias = std::move(outputs[2]);
    }
    hidden = call_one(s, module.child("final_layer_norm"), {hidden});
    hidden = call_one(s, module.child("dropout"), {hidden});
    return with_cache(context, std::move(hidden));
  };
}

/// _shift_right.
Tensor shifted_right(Session& s, const Tensor& labels) {
  Tensor shifted = new_zeros(s, labels, labels.sizes());
  Tensor kept = clone(s, slice(s, labels, 1, 0, -1));
  copy_(s, slice(s, shifted, 1, 1), std::move(kept));
  fill_(s, select(s, shifted, 1, 0));
  masked_fill_(s, shifted, compare(s, Comparison::eq, shifted, -100), 0);
  return shifted;
}

Module::Forward conditional_generation(const Context& context, const Module&) {
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const RootArguments given(arguments);
    if (!given.labels)
      throw Error({.where = module.class_name,
                   .what = "the decoder's input is made from the labels, and there are none",
                   .way_out = "give labels"});
    const Tensors encoded = call(s, module.child("encoder"),
                                 {{given.input_ids, given.attention_mask, Tensor(), Tensor()}, 0});
    const Tensor decoder_ids = shifted_right(s, given.labels);
    const Tensors decoded = call(s, module.child("decoder"),
                                 {{decoder_ids, Tensor(), encoded[0], given.attention_mask}, 0});
    Tensor output = decoded[0];
    if (context->config.flag("scale_decoder_outputs")) output = mul(s, output, any_factor);
    Tensor logits = call_one(s, module.child("lm_head"), {output});
    Tensor loss;
    {
      Tensor flat = view(s, logits, {-1, logits.size(-1)});
      Tensor labels = view(s, given.labels, {-1});
      loss = call_loss_module(s, LossModule::cross_entropy, flat, labels);
    }
    Tensors outputs = root_outputs(std::move(loss), std::move(logits), decoded);
    outputs.push_back(encoded[0]);
    return outputs;
  };
}

template <Function function>
Module::Forward make(const Context&, const Module&) {
  return forward_of(function);
}

constexpr ClassForward table[] = {
    {"T5Block", block},
    {"T5DenseActDense", make<dense>},
    {"T5DenseGatedActDense", make<gated_dense>},
    {"T5ForConditionalGeneration", conditional_generation},
    {"T5LayerFF", make<feed_forward>},
    {"T5LayerNorm", make<layer_norm_without_mean>},
    {"T5Stack", stack},
};

}  // namespace

std::span<const ClassForward> t5_forwards() { return table; }

}  // namespace shardscope::eager
