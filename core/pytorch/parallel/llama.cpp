#include "core/pytorch/parallel/llama.h"

#include <fmt/format.h>

#include <numeric>

#include "core/pytorch/engine/aten/attention.h"
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/norm.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager::parallel {
namespace {

Tensor on_meta(Session& s, Dtype dtype, const Dims& sizes, bool trainable) {
  const Tensor tensor = allocate(s, {.dtype = dtype, .device = Device::meta}, sizes);
  tensor.set_requires_grad(trainable);
  return tensor;
}

std::shared_ptr<Module> make(std::string name, std::string class_name) {
  auto module = std::make_shared<Module>();
  module->name = std::move(name);
  module->class_name = std::move(class_name);
  return module;
}

void add_child(Module& parent, const std::string& own, std::shared_ptr<Module> child) {
  parent.children.push_back({own, std::move(child)});
}

std::shared_ptr<Module> make_norm(Session& s, const std::string& name, const LlamaOptions& o) {
  auto module = make(name, "RMSNorm");
  module->parameters.push_back({"weight", on_meta(s, o.dtype, {o.shape.dim}, true)});
  module->forward = [](Session& in, Module& me, const Arguments& arguments) -> Tensors {
    return {rms_norm(in, arguments[0], me.parameter("weight"))};
  };
  return module;
}

std::shared_ptr<Module> make_embedding(Session& s, const std::string& name, const LlamaOptions& o) {
  auto module = make(name, "Embedding");
  module->parameters.push_back({"weight", on_meta(s, o.dtype, {o.shape.vocab, o.shape.dim}, true)});
  module->forward = [](Session& in, Module& me, const Arguments& arguments) -> Tensors {
    return {embedding(in, me.parameter("weight"), arguments[0])};
  };
  return module;
}

/// a * cos - b * sin, and b * cos + a * sin: each product lives until the sum is there.
Tensor turned(Session& s, const Tensor& a, const Tensor& by_a, const Tensor& b, const Tensor& by_b,
              bool plus) {
  Tensor first = mul(s, a, by_a);
  Tensor second = mul(s, b, by_b);
  return plus ? add(s, std::move(first), std::move(second))
              : sub(s, std::move(first), std::move(second));
}

/// rope() of record.py: pairs are the two halves of a head, in float32.
Tensor rotated(Session& s, const Tensor& x, const Tensor& cos_table, const Tensor& sin_table) {
  Tensors halves = chunk(s, to(s, x, Dtype::float32), 2, -1);
  const Tensor cos = unsqueeze(s, cos_table, 1);
  const Tensor sin = unsqueeze(s, sin_table, 1);
  Tensors parts(2);
  parts[0] = turned(s, halves[0], cos, halves[1], sin, false);
  parts[1] = turned(s, halves[1], cos, halves[0], sin, true);
  Tensor joined = cat(s, std::move(parts), -1);
  return type_as(s, std::move(joined), x);
}

Tensor with_heads(Session& s, const Tensor& x, std::int64_t head_dim) {
  return view(s, x, {x.size(0), x.size(1), -1, head_dim});
}

/// Each key head `times` times.
Tensor repeated_heads(Session& s, const Tensor& x, std::int64_t times) {
  const std::int64_t batch = x.size(0), length = x.size(1), heads = x.size(2), size = x.size(3);
  Tensor expanded = expand(s, unsqueeze(s, x, 3), {batch, length, heads, times, size});
  return reshape(s, std::move(expanded), {batch, length, -1, size});
}

Tensor causal_attention(Session& s, Tensor query, Tensor key, Tensor value) {
  return scaled_dot_product_attention(s, {.query = std::move(query),
                                          .key = std::move(key),
                                          .value = std::move(value),
                                          .causal = true});
}

Module::Forward attention_forward(const LlamaOptions& o) {
  return [size = o.shape.head_dim(),
          attend = o.attention ? o.attention : AttentionFunction(causal_attention)](
             Session& s, Module& me, const Arguments& arguments) -> Tensors {
    const Tensor& x = arguments[0];
    const std::int64_t batch = x.size(0), length = x.size(1);
    Tensor q = call_one(s, me.child("wq"), {x});
    Tensor k = call_one(s, me.child("wk"), {x});
    Tensor v = call_one(s, me.child("wv"), {x});
    q = with_heads(s, q, size);
    k = with_heads(s, k, size);
    v = with_heads(s, v, size);
    {
      Tensor new_q = rotated(s, q, arguments[1], arguments[2]);
      Tensor new_k = rotated(s, k, arguments[1], arguments[2]);
      k = std::move(new_k);
      q = std::move(new_q);
    }
    const std::int64_t times = q.size(2) / k.size(2);
    {
      Tensor new_k = repeated_heads(s, k, times);
      Tensor new_v = repeated_heads(s, v, times);
      v = std::move(new_v);
      k = std::move(new_k);
    }
    Tensor query = transpose(s, q, 1, 2), key = transpose(s, k, 1, 2),
           value = transpose(s, v, 1, 2);
    Tensor attended = attend(s, std::move(query), std::move(key), std::move(value));
    Tensor flat = reshape(s, transpose(s, attended, 1, 2), {batch, length, -1});
    return {call_one(s, me.child("wo"), {std::move(flat)})};
  };
}

std::shared_ptr<Module> make_attention(Session& s, const std::string& name, const LlamaOptions& o) {
  auto module = make(name, "Attention");
  const std::int64_t size = o.shape.head_dim();
  const std::int64_t dim = o.shape.dim;
  add_child(*module, "wq", make_linear(s, name + ".wq", o.shape.heads * size, dim, o.dtype));
  add_child(*module, "wk", make_linear(s, name + ".wk", o.shape.kv_heads * size, dim, o.dtype));
  add_child(*module, "wv", make_linear(s, name + ".wv", o.shape.kv_heads * size, dim, o.dtype));
  add_child(*module, "wo", make_linear(s, name + ".wo", dim, o.shape.heads * size, o.dtype));
  module->forward = attention_forward(o);
  return module;
}

Tensors feed_forward(Session& s, Module& me, const Arguments& arguments) {
  Tensor gate = silu(s, call_one(s, me.child("w1"), {arguments[0]}));
  Tensor up = call_one(s, me.child("w3"), {arguments[0]});
  Tensor product = mul(s, std::move(gate), std::move(up));
  return {call_one(s, me.child("w2"), {std::move(product)})};
}

std::shared_ptr<Module> make_feed_forward(Session& s, const std::string& name,
                                          const LlamaOptions& o) {
  auto module = make(name, "FeedForward");
  add_child(*module, "w1", make_linear(s, name + ".w1", o.shape.hidden, o.shape.dim, o.dtype));
  add_child(*module, "w2", make_linear(s, name + ".w2", o.shape.dim, o.shape.hidden, o.dtype));
  add_child(*module, "w3", make_linear(s, name + ".w3", o.shape.hidden, o.shape.dim, o.dtype));
  module->forward = feed_forward;
  return module;
}

/// x + module(norm(x)); a result that is still open is waited for here.
Tensor with_residual(Session& s, Pending* pending, const Tensor& x, Module& norm, Module& module,
                     const Arguments& block) {
  if (pending) pending->wait(s, x);
  const Tensor normed = call_one(s, norm, {x});  // held by the caller of the module
  Arguments arguments = block;
  arguments.tensors[0] = normed;
  Tensor result = call_one(s, module, std::move(arguments));
  if (pending) pending->wait(s, result);
  return add(s, x, std::move(result));
}

std::shared_ptr<Module> make_block(Session& s, const std::string& name, const LlamaOptions& o) {
  auto module = make(name, "Block");
  add_child(*module, "attention_norm", make_norm(s, name + ".attention_norm", o));
  add_child(*module, "ffn_norm", make_norm(s, name + ".ffn_norm", o));
  add_child(*module, "attention", make_attention(s, name + ".attention", o));
  add_child(*module, "feed_forward",
            o.feed_forward ? o.feed_forward(name + ".feed_forward")
                           : make_feed_forward(s, name + ".feed_forward", o));
  module->forward = [pending = o.pending](Session& in, Module& me,
                                          const Arguments& arguments) -> Tensors {
    Tensor x = with_residual(in, pending, arguments[0], me.child("attention_norm"),
                             me.child("attention"), arguments);
    return {with_residual(in, pending, x, me.child("ffn_norm"), me.child("feed_forward"),
                          Arguments{x})};
  };
  return module;
}

Tensors forward(Session& s, Module& me, const Arguments& arguments) {
  Tensor x = arguments[0];
  for (const Module::Child& child : me.children) {
    if (child.name == "tok_embeddings") x = call_one(s, *child.module, {x});
    if (child.name != "layers") continue;
    for (const Module::Child& block : child.module->children)
      x = call_one(s, *block.module, {x, me.buffer("cos"), me.buffer("sin")});
  }
  if (me.children.back().name != "output") return {x};
  const Tensor normed = call_one(s, me.child("norm"), {x});
  return {call_one(s, me.child("output"), {normed})};
}

Tensors linear_forward(Session& s, Module& me, const Arguments& arguments) {
  return {linear(s, arguments[0], me.parameter("weight"))};
}

}  // namespace

std::shared_ptr<Module> make_linear(Session& s, std::string name, std::int64_t out, std::int64_t in,
                                    Dtype dtype) {
  auto module = make(std::move(name), "Linear");
  module->parameters.push_back({"weight", on_meta(s, dtype, {out, in}, true)});
  module->forward = linear_forward;
  return module;
}

std::vector<std::int64_t> layers_of_stage(std::vector<std::int64_t> stage_layers,
                                          std::int64_t layers, int stages, int stage) {
  if (stage_layers.empty()) stage_layers.assign(static_cast<std::size_t>(stages), layers / stages);
  const auto own = stage_layers.begin() + stage;
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(*own));
  std::iota(numbers.begin(), numbers.end(),
            std::accumulate(stage_layers.begin(), own, std::int64_t{0}));
  return numbers;
}

std::shared_ptr<Module> make_llama(Session& s, const LlamaOptions& o) {
  auto root = make("", "Llama");
  if (o.part.first) add_child(*root, "tok_embeddings", make_embedding(s, "tok_embeddings", o));
  auto list = make("layers", "ModuleDict");
  std::vector<std::int64_t> layers = o.part.layers;
  if (layers.empty() && o.part.first && o.part.last)
    for (std::int64_t i = 0; i < o.shape.layers; ++i) layers.push_back(i);
  for (const std::int64_t i : layers)
    add_child(*list, std::to_string(i), make_block(s, fmt::format("layers.{}", i), o));
  add_child(*root, "layers", std::move(list));
  if (o.part.last) {
    add_child(*root, "norm", make_norm(s, "norm", o));
    add_child(*root, "output", make_linear(s, "output", o.shape.vocab, o.shape.dim, o.dtype));
  }
  const Dims table{o.length, o.shape.head_dim() / 2};
  for (const char* name : {"cos", "sin"})
    root->buffers.push_back({name, on_meta(s, Dtype::float32, table, false), false});
  root->forward = forward;
  return root;
}

}  // namespace shardscope::eager::parallel
