#include "tests/core/small_models.h"

#include <string>
#include <utility>

namespace shardscope::testing {
namespace {

constexpr std::int64_t vocabulary = 16;
constexpr std::int64_t width = 8;

ParameterId add(Model& model, std::string name, Shape shape) {
  model.parameters.push_back({.name = std::move(name), .shape = std::move(shape)});
  return ParameterId::of(model.parameters.size() - 1);
}

Norm add_norm(Model& model, const std::string& module, NormKind kind) {
  Norm norm{.module = module, .kind = kind, .weight = add(model, module + ".weight", {width})};
  if (kind == NormKind::layer_norm) norm.bias = add(model, module + ".bias", {width});
  return norm;
}

Linear add_conv1d(Model& model, const std::string& module, std::int64_t in, std::int64_t out) {
  return {.module = module,
          .weight = add(model, module + ".weight", {in, out}),
          .bias = add(model, module + ".bias", {out}),
          .in = in,
          .out = out,
          .layout = WeightLayout::in_out};
}

Linear add_linear(Model& model, const std::string& module, std::int64_t in, std::int64_t out) {
  return {
      .module = module, .weight = add(model, module + ".weight", {out, in}), .in = in, .out = out};
}

}  // namespace

Model small_gpt2(int blocks) {
  Model model{.family = "gpt2", .class_name = "GPT2LMHeadModel"};
  model.modules = {{"", "GPT2LMHeadModel"}};
  Decoder decoder{.vocabulary = vocabulary,
                  .width = width,
                  .heads = 2,
                  .kv_heads = 2,
                  .head_dim = 4,
                  .max_positions = 8,
                  .attention_scale = 0.5};
  decoder.token_embedding = add(model, "transformer.wte.weight", {vocabulary, width});
  decoder.position_embedding = add(model, "transformer.wpe.weight", {decoder.max_positions, width});
  for (int i = 0; i < blocks; ++i) {
    const std::string name = "transformer.h." + std::to_string(i);
    model.modules.push_back({name, "GPT2Block"});
    DecoderBlock block{.module = name};
    block.attention_norm = add_norm(model, name + ".ln_1", NormKind::layer_norm);
    block.qkv = {add_conv1d(model, name + ".attn.c_attn", width, 3 * width)};
    block.attention_out = add_conv1d(model, name + ".attn.c_proj", width, width);
    block.mlp_norm = add_norm(model, name + ".ln_2", NormKind::layer_norm);
    block.mlp_in = {add_conv1d(model, name + ".mlp.c_fc", width, 4 * width)};
    block.mlp_out = add_conv1d(model, name + ".mlp.c_proj", 4 * width, width);
    decoder.blocks.push_back(std::move(block));
  }
  decoder.final_norm = add_norm(model, "transformer.ln_f", NormKind::layer_norm);
  decoder.head = {
      .module = "lm_head", .weight = decoder.token_embedding, .in = width, .out = vocabulary};
  model.tied = {{"lm_head.weight", "transformer.wte.weight"}};
  model.decoder = std::move(decoder);
  return model;
}

Model small_llama(int blocks) {
  Model model{.family = "llama", .class_name = "LlamaForCausalLM"};
  model.modules = {{"", "LlamaForCausalLM"}};
  Decoder decoder{.vocabulary = vocabulary,
                  .width = width,
                  .heads = 2,
                  .kv_heads = 1,
                  .head_dim = 4,
                  .max_positions = 64,
                  .attention_scale = 0.5,
                  .rope = Rope{}};
  decoder.token_embedding = add(model, "model.embed_tokens.weight", {vocabulary, width});
  for (int i = 0; i < blocks; ++i) {
    const std::string name = "model.layers." + std::to_string(i);
    model.modules.push_back({name, "LlamaDecoderLayer"});
    DecoderBlock block{.module = name, .mlp = MlpKind::swiglu};
    block.qkv = {add_linear(model, name + ".self_attn.q_proj", width, 8),
                 add_linear(model, name + ".self_attn.k_proj", width, 4),
                 add_linear(model, name + ".self_attn.v_proj", width, 4)};
    block.attention_out = add_linear(model, name + ".self_attn.o_proj", 8, width);
    block.mlp_in = {add_linear(model, name + ".mlp.gate_proj", width, 12),
                    add_linear(model, name + ".mlp.up_proj", width, 12)};
    block.mlp_out = add_linear(model, name + ".mlp.down_proj", 12, width);
    block.attention_norm = add_norm(model, name + ".input_layernorm", NormKind::rms_norm);
    block.mlp_norm = add_norm(model, name + ".post_attention_layernorm", NormKind::rms_norm);
    decoder.blocks.push_back(std::move(block));
  }
  decoder.final_norm = add_norm(model, "model.norm", NormKind::rms_norm);
  decoder.head = add_linear(model, "lm_head", width, vocabulary);
  model.decoder = std::move(decoder);
  return model;
}

}  // namespace shardscope::testing
