#include "core/pytorch/engine/adapters/dora.h"

#include <utility>

#include "core/base/error.h"
#include "core/pytorch/engine/adapters/lora.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_scaling = 0.5;

/// torch.eye.
Tensor eye(Session& s, std::int64_t size, Like kind) {
  static constexpr Operator op{"aten.eye.default", OperatorKind::pointwise};
  Tensor result = allocate(s, kind, {size, size});
  dispatched(s, op, {}, {&result});
  return result;
}

}  // namespace

Tensor turned_weight(Session& s, const Tensor& weight, bool turned, bool is_parameter) {
  if (!turned) return weight;
  const Tensor across = t(s, weight);
  if (!is_parameter) return across;
  Tensor parameter = shallow_detach(s, across);
  parameter.set_requires_grad(true);
  return parameter;
}

/// Its result is detached, or made a parameter, before anything else happens.
Tensor dora_norm(Session& s, Tensor weight, const Tensor& update) {
  const LetGo let_go{weight};
  const NoGrad no_grad(s);
  weight = add(s, weight, mul(s, update, any_scaling));
  return to(s, vector_norm(s, weight, Dims{1}), weight.dtype());
}

namespace {

/// get_lora_weight: through the layers' own forwards, because of FSDP.
Tensor lora_weight(Session& s, const LoraParts& parts) {
  const Tensor a = adapter_weight(parts.a);
  // Of a shard PEFT asks for a second size, which raises.
  if (a.sizes().size() != 2)
    throw Error({.where = "DoRA",
                 .what = "reads the weights of adapters, which are sharded in units of their own",
                 .way_out = "wrap blocks only, or do not shard (NO_SHARD)"});
  const Tensor identity = eye(s, a.size(1), like(a));
  Tensor product = call_one(s, parts.a, {identity});
  product = call_one(s, parts.b, {std::move(product)});
  return t(s, std::move(product));
}

/// What a DoraLinearLayer knows of the layer around it.
struct Around {
  Module& layer;
  std::shared_ptr<const QuantizedLayer> quantized;
  bool turned;
};

/// DoraLinearLayer.forward.
Tensor extra_output(Session& s, Module& me, const Around& around, const Tensor& x,
                    Tensor base_result) {
  const LoraParts parts(around.layer);
  const auto& quantized = around.quantized;
  Tensor update = to(s, lora_weight(s, parts), x.dtype());
  const Tensor kept = parts.base.read(0);
  const bool is_parameter = !quantized && kept.dtype() == x.dtype();
  Tensor weight = quantized ? quantized->dequantized(s, kept) : kept;
  weight = to(s, weight, x.dtype());
  Tensor norm =
      dora_norm(s, turned_weight(s, weight, around.turned, is_parameter), detach(s, update));
  norm = detach(s, norm);
  Tensor scale = view(s, div(s, me.parameters[0].tensor, norm), {1, -1});
  Tensor lora = call_one(s, parts.a, {x});
  lora = call_one(s, parts.b, {std::move(lora)});
  if (!base_result)
    base_result = linear(s, x, turned_weight(s, weight, around.turned, is_parameter), Tensor());
  else if (const Tensor bias = parts.base.read(1))
    base_result = sub(s, base_result, bias);
  Tensor of_base = mul(s, sub(s, scale, 1), base_result);
  Tensor of_lora = mul(s, scale, lora);
  of_lora = mul(s, std::move(of_lora), any_scaling);
  Tensor result = add(s, std::move(of_base), std::move(of_lora));
  // As Python lets go of a function's variables.
  const LetGo let_go{base_result, update, weight, norm, scale, lora};
  return result;
}

}  // namespace

std::shared_ptr<Module> dora_magnitude(Session& s, const Tensor& weight, const Tensor& a,
                                       const Tensor& b) {
  auto module = std::make_shared<Module>();
  module->class_name = "DoraEmbeddingLayer";
  const NoGrad no_grad(s);
  const bool half = a.dtype() == Dtype::float16;
  Tensor update = half ? mm(s, to(s, b, Dtype::float32), to(s, a, Dtype::float32)) : mm(s, b, a);
  if (half) update = to(s, update, Dtype::float16);
  const Tensor magnitude = shallow_detach(s, dora_norm(s, t(s, weight), update));
  magnitude.set_requires_grad(true);
  module->parameters.push_back({"weight", magnitude});
  return module;
}

std::shared_ptr<Module> dora_layer(Session& s, const DoraInit& init) {
  auto module = std::make_shared<Module>();
  module->class_name = "DoraLinearLayer";
  const NoGrad no_grad(s);
  // Of 4 bits the base layer is copied first: FSDP would not take what touched it.
  QuantizedLayer::Copy copy;
  if (init.quantized && init.quantized->is_4bit()) copy = init.quantized->copied(s, init.base);
  const Tensor& kept = copy.packed ? copy.packed : init.base.parameters[0].tensor;
  // float16 is multiplied in float32.
  const bool half = init.a.dtype() == Dtype::float16;
  const Tensor a = half ? to(s, init.a, Dtype::float32) : init.a;
  const Tensor b = half ? to(s, init.b, Dtype::float32) : init.b;
  Tensor weight = init.quantized ? init.quantized->dequantized(s, kept) : kept;
  Tensor update = mm(s, b, a);
  if (half) update = to(s, update, Dtype::float16);
  Tensor norm = dora_norm(s, init.turned ? t(s, weight) : weight, update);
  const Tensor magnitude = shallow_detach(s, norm);
  magnitude.set_requires_grad(true);
  module->parameters.push_back({"weight", magnitude});
  module->forward = [around = Around{init.layer, init.quantized, init.turned}](
                        Session& session, Module& me, const Arguments& arguments) -> Tensors {
    return {extra_output(session, me, around, arguments[0], arguments[1])};
  };
  const LetGo let_go{update, weight};
  return module;
}

Tensor dora_result(Session& s, Module& layer, Tensor x, Tensor result) {
  const LoraParts parts(layer);
  Tensor base_result = result;
  if (parts.drops) {
    x = call_one(s, parts.dropout, {x});
    base_result.reset();
  }
  Module& magnitude = layer.child("lora_magnitude_vector").child("default");
  Tensor extra = call_one(s, magnitude, {x, std::move(base_result)});
  return add(s, std::move(result), std::move(extra));
}

}  // namespace shardscope::eager
