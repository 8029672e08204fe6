#include "core/pytorch/engine/adapters/unsloth.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/engine/adapters/lora.h"
#include "core/pytorch/engine/adapters/unsloth_kernels.h"
#include "core/pytorch/engine/adapters/unsloth_lora.h"
#include "core/pytorch/engine/aten/attention.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/models/cut_cross_entropy.h"
#include "core/pytorch/engine/models/heads.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr std::int64_t first_positions = 4 * 8192, positions_step = 8192;

/// A layer that fast_lora.py can run: adapted, without bias, dropout and DoRA.
bool is_plain_lora(const Module& module) {
  if (!module.class_name.starts_with("lora.")) return false;
  const bool biased = std::ranges::any_of(
      module.child("base_layer").parameters,
      [](const Module::NamedTensor& own) { return own.name == "bias" && own.tensor; });
  return !biased && module.child("lora_magnitude_vector").children.empty() &&
         module.child("lora_dropout").child("default").class_name == "Identity";
}

template <std::size_t n>
bool are_plain_lora(const Module& parent, const std::array<const char*, n>& names) {
  return std::ranges::all_of(names, [&](const char* name) {
    return has_child(parent, name) && is_plain_lora(parent.child(name));
  });
}

constexpr std::array<const char*, 3> projections{"q_proj", "k_proj", "v_proj"};
constexpr std::array<const char*, 3> feed_forward{"gate_proj", "up_proj", "down_proj"};
constexpr std::array<const char*, 1> output_projection{"o_proj"};

/// Cosines and sines of positions, and those that other layers have of their own.
struct RotaryCache {
  Tensor cos, sin;
  Tensors of_layers;
};

class Patches {
 public:
  Patches(Session& s, const UnslothRequest& request)
      : s_(s), request_(request), config_(request.config) {}

  void apply(Module& root) {
    for (Module* module : modules_of(root)) {
      if (module->class_name.ends_with("RMSNorm")) module->forward = norm;
      if (module->class_name.ends_with("RotaryEmbedding")) module->forward = rotary();
      if (has_child(*module, "q_proj") && has_child(*module, "o_proj"))
        module->forward = attention(*module);
      if (are_plain_lora(*module, feed_forward)) module->forward = mlp(*module);
      if (module->class_name.ends_with("ForCausalLM") && has_child(*module, "lm_head"))
        module->forward = head();
      if (module->class_name == "ModulesToSaveWrapper") keep_copy_alone(*module);
    }
  }

 private:
  /// _offload_frozen_module_for_training: the frozen original goes to the host, and a copy in
  /// float16 trains in float32.
  void keep_copy_alone(Module& wrapper) const {
    const NoGrad no_grad(s_);
    const auto each = [&](Module& module, const ToOptions& options) {
      for (const Module::NamedTensor& own : module.parameters)
        if (own.tensor) own.tensor.set_data(to(s_, own.tensor, options));
    };
    Module& copy = wrapper.child("modules_to_save").child("default");
    if (s_.settings.device != Device::meta)
      each(wrapper.child("original_module"), {.device = Device::cpu});
    if (copy.parameter("weight").dtype() == Dtype::float16) each(copy, {.dtype = Dtype::float32});
  }

  static Tensors norm(Session& s, Module& me, const Arguments& arguments) {
    return {unsloth_rms_norm(s, arguments[0], me.parameter("weight"))};
  }

  /// A table begins with at most 32,768 positions. The first forward extends a shared one to the
  /// positions of the config, in steps of 8,192.
  std::int64_t positions() const {
    const std::int64_t most = config_.find_integer("max_position_embeddings").value_or(2048);
    if (most <= first_positions || request_.settings.rotary == UnslothRotary::whole_of_layers)
      return most;
    if (request_.settings.rotary == UnslothRotary::grown_of_layers) return first_positions;
    return (most + positions_step - 1) / positions_step * positions_step;
  }

  /// LlamaRotaryEmbedding. Layers make their own tables when the model is made.
  Module::Forward rotary() const {
    const auto cache = std::make_shared<RotaryCache>();
    if (request_.settings.rotary != UnslothRotary::shared) {
      const std::int64_t layers = config_.integer("num_hidden_layers");
      for (std::int64_t i = 0; i < 2 * layers; ++i)
        cache->of_layers.push_back(
            empty(s_, {positions(), head_size()}, {request_.dtype, s_.settings.device}));
      cache->cos = cache->of_layers[0];
      cache->sin = cache->of_layers[1];
    }
    return [cache, positions = positions(), size = head_size()](
               Session& s, Module&, const Arguments& arguments) -> Tensors {
      if (!cache->cos) {
        const NoGrad no_grad(s);
        cache->cos = empty(s, {positions, size}, like(arguments[0]));
        cache->sin = empty(s, {positions, size}, like(arguments[0]));
      }
      return {cache->cos, cache->sin};
    };
  }

  std::int64_t heads() const { return config_.integer("num_attention_heads"); }
  std::int64_t head_size() const {
    return config_.find_integer("head_dim").value_or(config_.integer("hidden_size") / heads());
  }

  AdaptedLinear adapted(Module& layer) const {
    const LoraParts parts(layer);
    return {.weight = parts.base.parameters[0].tensor,
            .quantized = request_.quantized.find(&parts.base),
            .a = parts.a.parameters[0].tensor,
            .b = parts.b.parameters[0].tensor};
  }

  /// {hidden states, mask, cos, sin, position ids}: LlamaAttention_fast_forward.
  Module::Forward attention(Module& module) const {
    std::optional<AdaptedProjections> fused;
    if (are_plain_lora(module, projections))
      fused = AdaptedProjections{.query = adapted(module.child("q_proj")),
                                 .key = adapted(module.child("k_proj")),
                                 .value = adapted(module.child("v_proj"))};
    std::optional<AdaptedLinear> output;
    if (are_plain_lora(module, output_projection)) output = adapted(module.child("o_proj"));
    const std::int64_t size = head_size();
    return [fused, output, size, buffers = buffers_, xformers = request_.settings.xformers](
               Session& s, Module& me, const Arguments& arguments) -> Tensors {
      const Tensor& hidden = arguments[0];
      Tensors states;
      if (fused)
        states = unsloth_lora_qkv(s, hidden, *fused, buffers);
      else
        for (const char* name : projections)
          states.push_back(call_one(s, me.child(name), {hidden}));
      for (Tensor& state : states)
        state = view(s, state, {hidden.size(0), hidden.size(1), -1, size});
      normalize_heads(s, me, states);
      states[0] = unsloth_rotary(s, contiguous(s, states[0]), arguments[2], arguments[3]);
      states[1] = unsloth_rotary(s, contiguous(s, states[1]), arguments[2], arguments[3]);
      Tensor attended = attend(s, states, xformers);
      attended = reshape(s, attended, {hidden.size(0), hidden.size(1), -1});
      Tensor result = output ? unsloth_lora(s, attended, *output, buffers)
                             : call_one(s, me.child("o_proj"), {attended});
      return {std::move(result), Tensor()};
    };
  }

  /// Qwen 3: a norm of each head's query and key.
  static void normalize_heads(Session& s, Module& me, Tensors& states) {
    if (has_child(me, "q_norm")) states[0] = call_one(s, me.child("q_norm"), {states[0]});
    if (has_child(me, "k_norm")) states[1] = call_one(s, me.child("k_norm"), {states[1]});
  }

  /// As many heads as queries have: expand and reshape, which copies.
  static Tensor repeated(Session& s, const Tensor& states, std::int64_t groups) {
    if (groups == 1) return states;
    const Dims& sizes = states.sizes();
    Tensor wide = view(s, states, {sizes[0], sizes[1], sizes[2], 1, sizes[3]});
    wide = expand(s, std::move(wide), {sizes[0], sizes[1], sizes[2], groups, sizes[3]});
    return reshape(s, std::move(wide), {sizes[0], sizes[1], sizes[2] * groups, sizes[3]});
  }

  /// run_attention: states (B, T, H, D), and the result likewise.
  static Tensor attend(Session& s, const Tensors& states, bool xformers) {
    const std::int64_t groups = states[0].size(2) / states[1].size(2);
    const auto heads_first = [&](const Tensor& state) { return transpose(s, state, 1, 2); };
    AttentionArguments arguments{.query = heads_first(states[0]), .causal = true};
    arguments.key = heads_first(xformers ? repeated(s, states[1], groups) : states[1]);
    arguments.value = heads_first(xformers ? repeated(s, states[2], groups) : states[2]);
    arguments.grouped_queries = !xformers && groups > 1;
    return transpose(s, scaled_dot_product_attention(s, std::move(arguments)), 1, 2);
  }

  /// apply_lora_mlp_swiglu.
  Module::Forward mlp(Module& module) const {
    const AdaptedFeedForward layers{.gate = adapted(module.child("gate_proj")),
                                    .up = adapted(module.child("up_proj")),
                                    .down = adapted(module.child("down_proj"))};
    return
        [layers, buffers = buffers_](Session& s, Module&, const Arguments& arguments) -> Tensors {
          return {unsloth_lora_mlp(s, arguments[0], layers, buffers)};
        };
  }

  /// CausalLM_fast_forward: with labels the logits are whole in old releases alone.
  Module::Forward head() const {
    return [target = request_.settings.loss_memory, kind = request_.settings.loss](
               Session& s, Module& me, const Arguments& arguments) -> Tensors {
      const RootArguments given(arguments);
      const Tensors base = call(s, me.child("model"), {given.input_ids, given.attention_mask});
      Module& head = me.child("lm_head");
      if (!given.labels) return root_outputs({}, call_one(s, head, {alias(s, base[0])}), base);
      const Tensor& weight = weight_of(head);
      if (kind == UnslothLoss::parts)
        return root_outputs(unsloth_fused_loss(s, base[0], weight, given.labels, target), {}, base);
      if (kind == UnslothLoss::cut && given.labels.numel() > most_tokens_with_whole_logits)
        return root_outputs(
            cut_cross_entropy(s, to(s, base[0], weight.dtype()), weight, given.labels), {}, base);
      Tensor logits = call_one(s, head, {to(s, base[0], weight.dtype())});
      Tensor loss = unsloth_whole_loss(s, logits, given.labels);
      return root_outputs(std::move(loss), std::move(logits), base);
    };
  }

  /// Of a head that modules_to_save copied: the copy's.
  static const Tensor& weight_of(Module& head) {
    if (!has_child(head, "modules_to_save")) return head.parameter("weight");
    return head.child("modules_to_save").child("default").parameter("weight");
  }

  Session& s_;
  const UnslothRequest& request_;
  ModelConfig config_;
  std::shared_ptr<DequantizeBuffers> buffers_ = std::make_shared<DequantizeBuffers>();
};

}  // namespace

Bytes unsloth_loss_memory(Bytes free) {
  return std::clamp(Bytes{free.count / 2}, Bytes{1}, most_unsloth_loss_memory);
}

bool has_unsloth_patches(std::string_view family) {
  constexpr std::array<std::string_view, 4> known{"llama", "mistral", "qwen2", "qwen3"};
  return std::ranges::find(known, family) != known.end();
}

void patch_unsloth(Session& s, Module& root, const UnslothRequest& request) {
  const std::string family = request.config.at("model_type").string();
  if (!has_unsloth_patches(family))
    throw Error({.where = "Unsloth",
                 .what = "its patches of " + family + " are not known here",
                 .way_out = "use llama, mistral, qwen2 or qwen3, or record a real run"});
  Patches(s, request).apply(root);
  s.empty_cache();  // patch_peft_model ends so
}

}  // namespace shardscope::eager
