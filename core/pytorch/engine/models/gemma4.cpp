// Gemma 4's attention, layer and base model. Source: transformers 5.24,
// models/gemma4/modeling_gemma4.py.
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/selection.h"
#include "core/pytorch/engine/aten/softmax.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/attention_interface.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/models/masks.h"
#include "core/pytorch/engine/models/rotary.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_factor = 0.5, inverse_root = -0.5;
constexpr std::array<const char*, 2> layer_types{"full_attention", "sliding_attention"};

/// Gemma4RMSNorm: in float32; some have no weight.
Module::Forward norm(const Context&, const Module&) {
  return [](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor normed = [&] {
      const Tensor hidden = to(s, arguments[0], Dtype::float32);
      const Tensor squares = add(s, mean(s, pow(s, hidden, 2), {-1}, true), 1e-6);
      return mul(s, hidden, pow(s, squares, inverse_root));
    }();
    if (!module.parameters.empty())
      normed = mul(s, normed, to(s, module.parameter("weight"), Dtype::float32));
    return {type_as(s, normed, arguments[0])};
  };
}

/// apply_rotary_pos_emb of one of (B, T, H, D).
Tensor turned(Session& s, const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const Tensor cosines = unsqueeze(s, cos, 2);
  const Tensor sines = unsqueeze(s, sin, 2);
  Tensor kept = mul(s, x, cosines);
  return add(s, std::move(kept), mul(s, rotate_half(s, x), sines));
}

struct KeyValue {
  Tensor key, value;
};
/// KVSharingDict: of the last layer of each type that has its own. It lives as long as calls of
/// layers that may run again.
using SharedKeys = std::map<std::string, KeyValue, std::less<>>;

/// How a layer stands to the keys and values of its type.
struct KeySharing {
  bool reads = false;   ///< those of an earlier layer
  bool stores = false;  ///< its own, for later layers: the last one of its type that has any
};

KeySharing sharing_of(const ModelConfig& config, std::size_t layer) {
  const auto layers = static_cast<std::size_t>(config.integer("num_hidden_layers"));
  const std::size_t own =
      layers - static_cast<std::size_t>(config.find_integer("num_kv_shared_layers").value_or(0));
  if (layer >= own) return {.reads = true};
  for (std::size_t later = layer + 1; later < own; ++later)
    if (config.layer_type(later) == config.layer_type(layer)) return {};
  return {.stores = true};
}

/// Arguments of attention and layers: what the layer reads of its own input is None for attention.
struct Given {
  explicit Given(const Arguments& arguments)
      : hidden(arguments[0]),
        own_input(arguments[1]),
        cos(arguments[2]),
        sin(arguments[3]),
        mask(arguments[4]),
        positions(arguments[5]),
        shared(std::static_pointer_cast<SharedKeys>(arguments.object)) {}
  Tensor hidden, own_input, cos, sin, mask, positions;
  std::shared_ptr<SharedKeys> shared;
};

/// Keys and values (B, H, T, D) of the layer's own projections.
KeyValue own_keys(Session& s, Module& module, const Given& given, const Dims& sizes) {
  const auto projected = [&](const char* name) {
    return view(s, call_one(s, module.child(name), {given.hidden}), sizes);
  };
  KeyValue own;
  own.key = projected("k_proj");
  own.value = has_child(module, "v_proj") ? projected("v_proj") : own.key;
  own.key = call_one(s, module.child("k_norm"), {own.key});
  own.key = turned(s, own.key, given.cos, given.sin);
  own.key = transpose(s, own.key, 1, 2);
  own.value = call_one(s, module.child("v_norm"), {own.value});
  own.value = transpose(s, own.value, 1, 2);
  return own;
}

std::int64_t head_size(const ModelConfig& config, std::size_t layer) {
  const auto all = config.find("per_layer_config");
  const auto own = all ? all->find(std::to_string(layer)) : std::nullopt;
  const auto size = own ? own->find("head_dim") : std::nullopt;
  return size ? size->integer() : config.integer("head_dim");
}

Module::Forward attention(const Context& context, const Module& owner) {
  const ModelConfig& config = context->config;
  const std::size_t layer = layer_number(owner.name);
  const std::string type = config.layer_type(layer);
  const std::int64_t head = head_size(config, layer);
  const std::int64_t heads = config.integer("num_attention_heads");
  const double dropped = config.find_number("attention_dropout").value_or(0);
  const KeySharing sharing = sharing_of(config, layer);
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Given given(arguments);
    if (!given.shared && (sharing.reads || sharing.stores))
      throw Error({.where = "use_reentrant",
                   .what = "Gemma 4's layers pass keys and values to each other, which reentrant "
                           "checkpoints are not simulated with",
                   .way_out = "take checkpoints that are not reentrant"});
    const Dims sizes{given.hidden.size(0), given.hidden.size(1), -1, head};
    Tensor query = view(s, call_one(s, module.child("q_proj"), {given.hidden}), sizes);
    query = call_one(s, module.child("q_norm"), {query});
    query = turned(s, query, given.cos, given.sin);
    query = transpose(s, query, 1, 2);
    KeyValue states;
    const LetGo let_go{query, states.key, states.value};
    if (sharing.reads) {
      states = given.shared->at(type);
    } else {
      states = own_keys(s, module, given, sizes);
      std::tie(states.key, states.value) = cached(s, context, layer, states.key, states.value);
    }
    if (sharing.stores) (*given.shared)[type] = states;
    AttentionResult result = attend(s, context,
                                    {.query = query,
                                     .key = states.key,
                                     .value = states.value,
                                     .mask = given.mask,
                                     .dropout = module.training ? dropped : 0,
                                     .groups = heads / states.key.size(1)});
    Tensor output =
        contiguous(s, reshape(s, result.output, {given.hidden.size(0), given.hidden.size(1), -1}));
    result.output.reset();
    output = call_one(s, module.child("o_proj"), {output});
    return {std::move(output), std::move(result.weights)};
  };
}

/// Gemma4TextRouter: {probabilities, scores, indices}.
Module::Forward router(const Context& context, const Module&) {
  const std::int64_t chosen = context->config.integer("top_k_experts");
  return [chosen](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor hidden = call_one(s, module.child("norm"), {arguments[0]});
    hidden = mul(s, mul(s, hidden, module.parameter("scale")), any_factor);
    const Tensor logits = call_one(s, module.child("proj"), {hidden});
    Tensor probabilities = softmax(s, logits, -1, Dtype::float32);
    auto [scores, indices] = topk(s, probabilities, chosen);
    scores = div_(s, scores, sum(s, scores, {-1}, true));
    scores = mul(s, scores, index(s, module.parameter("per_expert_scale"), {indices}));
    return {std::move(probabilities), std::move(scores), std::move(indices)};
  };
}

/// Variables of the layer's forward that live until it returns.
struct ExpertLocals {
  Tensor of_mlp, flat, of_experts;
  Tensors routed;
};

/// What the experts add to the feed-forward part.
Tensor beside_experts(Session& s, Module& module, const Tensor& hidden, const Tensor& residual,
                      ExpertLocals& locals) {
  locals.of_mlp = call_one(s, module.child("post_feedforward_layernorm_1"), {hidden});
  locals.flat = reshape(s, residual, {-1, residual.size(-1)});
  locals.routed = call(s, module.child("router"), {locals.flat});
  locals.of_experts = call_one(s, module.child("pre_feedforward_layernorm_2"), {locals.flat});
  locals.of_experts =
      call_one(s, module.child("experts"), {locals.of_experts, locals.routed[2], locals.routed[1]});
  locals.of_experts = reshape(s, locals.of_experts, residual.sizes());
  locals.of_experts =
      call_one(s, module.child("post_feedforward_layernorm_2"), {locals.of_experts});
  return add(s, locals.of_mlp, locals.of_experts);
}

/// What the layer makes of the input that each layer has for itself.
Tensor gated_own_input(Session& s, Module& module, const Tensor& residual,
                       const Tensor& own_input) {
  Tensor hidden = call_one(s, module.child("per_layer_input_gate"), {residual});
  hidden = call_one(s, module.child("act_fn"), {hidden});
  hidden = mul(s, hidden, own_input);
  hidden = call_one(s, module.child("per_layer_projection"), {hidden});
  hidden = call_one(s, module.child("post_per_layer_input_norm"), {hidden});
  return add(s, residual, hidden);
}

/// {hidden states, the layer's own input, cos, sin, mask, position ids}.
Module::Forward layer(const Context& context, const Module&) {
  const bool has_experts = context->config.flag("enable_moe_block");
  return [has_experts](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Given given(arguments);
    Tensor residual = given.hidden;
    Tensor hidden = call_one(s, module.child("input_layernorm"), {given.hidden});
    Arguments of_attention({hidden, {}, given.cos, given.sin, given.mask, given.positions}, 0);
    of_attention.object = given.shared;
    Tensors attended = call(s, module.child("self_attn"), std::move(of_attention));
    hidden = std::move(attended[0]);
    hidden = call_one(s, module.child("post_attention_layernorm"), {hidden});
    hidden = add(s, residual, hidden);
    residual = hidden;
    hidden = call_one(s, module.child("pre_feedforward_layernorm"), {hidden});
    hidden = call_one(s, module.child("mlp"), {hidden});
    ExpertLocals locals;
    if (has_experts) hidden = beside_experts(s, module, hidden, residual, locals);
    hidden = call_one(s, module.child("post_feedforward_layernorm"), {hidden});
    hidden = add(s, residual, hidden);
    if (given.own_input) {
      residual = hidden;
      hidden = gated_own_input(s, module, residual, given.own_input);
    }
    return {mul_(s, std::move(hidden), module.buffer("layer_scalar"))};
  };
}

/// get_per_layer_inputs and project_per_layer_inputs: (B, T, L, P).
Tensor own_inputs(Session& s, Module& module, const Tensor& ids, const Tensor& embeddings,
                  const Dims& sizes) {
  const Tensor looked_up =
      reshape(s, call_one(s, module.child("embed_tokens_per_layer"), {ids}), sizes);
  Tensor projected =
      mul(s, call_one(s, module.child("per_layer_model_projection"), {embeddings}), any_factor);
  projected = reshape(s, projected, sizes);
  projected = call_one(s, module.child("per_layer_projection_norm"), {projected});
  return mul(s, add(s, projected, looked_up), any_factor);
}

/// {cos, sin} of each type of layer.
using TurnsByType = std::array<Tensors, layer_types.size()>;

TurnsByType turns_by_type(Session& s, const ModelConfig& config, Module& rotary,
                          const Tensor& hidden, const Tensor& positions) {
  TurnsByType turns;
  const auto layers = static_cast<std::size_t>(config.integer("num_hidden_layers"));
  for (std::size_t type = 0; type < layer_types.size(); ++type)
    for (std::size_t i = 0; i < layers && turns[type].empty(); ++i)
      if (config.layer_type(i) == layer_types[type])
        turns[type] =
            call(s, rotary,
                 {hidden, positions, rotary.buffer(std::string(layer_types[type]) + "_inv_freq")});
  return turns;
}

/// {input ids, attention mask}.
Module::Forward base(const Context& context, const Module&) {
  const std::int64_t own = context->config.integer("hidden_size_per_layer_input");
  const std::int64_t layers = context->config.integer("num_hidden_layers");
  return [=](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    const Tensor embeddings = call_one(s, module.child("embed_tokens"), {arguments[0]});
    const std::int64_t tokens = embeddings.size(1);
    Tensor inputs;
    if (own > 0)
      inputs = own_inputs(s, module, arguments[0], embeddings,
                          {embeddings.size(0), tokens, layers, own});
    start_cache(s, context);
    Tensor positions = add(s, arange(s, tokens, {Dtype::int64, s.settings.device}), 0);
    positions = unsqueeze(s, positions, 0);
    MaskRequest request{
        .embeddings = embeddings, .attention_mask = arguments[1], .position_ids = positions};
    std::array<Tensor, layer_types.size()> masks;
    masks[0] = create_causal_mask(s, context, request);
    request.sliding_window = context->config.find_integer("sliding_window");
    masks[1] = create_causal_mask(s, context, request);
    const TurnsByType turns =
        turns_by_type(s, context->config, module.child("rotary_emb"), embeddings, positions);
    Tensor hidden = embeddings;
    const auto shared = std::make_shared<SharedKeys>();
    Tensor own_input;
    std::int64_t i = 0;
    for (const Module::Child& layer : module.child("layers").children) {
      if (inputs) own_input = select(s, inputs, 2, i);
      const bool slides =
          context->config.layer_type(static_cast<std::size_t>(i++)) == layer_types[1];
      const Tensors& turn = turns[slides ? 1 : 0];
      Arguments given({hidden, own_input, turn[0], turn[1], masks[slides ? 1 : 0], positions}, 2);
      given.object = shared;
      hidden = call_one(s, *layer.module, std::move(given));
    }
    hidden = call_one(s, module.child("norm"), {hidden});
    return with_cache(context, std::move(hidden));
  };
}

constexpr ClassForward table[] = {
    {"Gemma4RMSNorm", norm},      {"Gemma4TextAttention", attention},
    {"Gemma4TextModel", base},    {"Gemma4TextDecoderLayer", layer},
    {"Gemma4TextRouter", router},
};

}  // namespace

std::span<const ClassForward> gemma4_forwards() { return table; }

}  // namespace shardscope::eager
