#include "core/pytorch/engine/adapters/litgpt_lora.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/pytorch/engine/adapters/lora.h"
#include "core/pytorch/engine/aten/convolution.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/aten/random.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr double any_scaling = 0.5;

/// new_zeros(...).index_copy_(-1, index, source): the columns of `index` are source's. Autograd
/// keeps the source for its sizes.
Tensor zero_padded(Session& s, const Tensor& source, const Tensor& index, std::int64_t width) {
  static constexpr Operator copy_op{"aten.index_copy_.default", OperatorKind::indexing};
  static constexpr Operator select_op{"aten.index_select.default", OperatorKind::indexing};
  Dims sizes = source.sizes();
  sizes[-1] = width;
  return apply_function(
             s, "IndexCopyBackward0", {source},
             [&](Session& in, const NodeRef& node) -> Tensors {
               if (node) {
                 node->save(in, "index", index);
                 node->save(in, "source", source);
               }
               const Tensor result = new_zeros(in, source, sizes);
               dispatched(in, copy_op, {&result, &index, &source}, {&result});
               return {result};
             },
             [narrow = source.sizes()](Session& in, Node& node, Tensors& gradients) -> Tensors {
               const Tensor columns = node.saved(in, "index");
               const Tensor gradient = empty(in, narrow, like(gradients[0]));
               dispatched(in, select_op, {&gradients[0], &columns}, {&gradient});
               return {gradient};
             })
      .front();
}

/// Widths of query, key and value, of those that are adapted.
struct Widths {
  std::vector<std::int64_t> adapted;
  bool all = false, grouped = false;
};

Tensor adapter_product(Session& s, const Tensor& low, const Tensor& b, const Widths& widths) {
  const Tensor kernel = unsqueeze(s, b, -1);
  const auto count = static_cast<std::int64_t>(widths.adapted.size());
  if (!widths.grouped) return conv1d(s, low, kernel);
  const Tensors inputs = chunk(s, low, count, 1);
  const Tensors kernels = split_with_sizes(s, kernel, widths.adapted, 0);
  Tensors parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) parts.push_back(conv1d(s, inputs[i], kernels[i]));
  return cat(s, parts, 1);
}

/// LoRAQKVLinear.forward.
Module::Forward fused_forward(const Widths& widths, std::int64_t width, double probability) {
  return [=](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    const Tensor pretrained = call_one(s, me.child("linear"), {arguments[0]});
    const Tensor low =
        linear(s, dropout(s, arguments[0], probability, me.training), me.parameter("lora_A"));
    Tensor high = adapter_product(s, transpose(s, low, -2, -1), me.parameter("lora_B"), widths);
    high = transpose(s, std::move(high), -2, -1);
    const Tensor update = mul(
        s, widths.all ? high : zero_padded(s, high, me.buffer("_lora_ind"), width), any_scaling);
    return {add(s, pretrained, update)};
  };
}

/// LoRALinear.forward.
Module::Forward plain_forward(double probability) {
  return [probability](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    const Tensor pretrained = call_one(s, me.child("linear"), {arguments[0]});
    const Tensor update = [&] {
      Tensor low = matmul(s, dropout(s, arguments[0], probability, me.training),
                          transpose(s, me.parameter("lora_A"), 0, 1));
      low = matmul(s, std::move(low), transpose(s, me.parameter("lora_B"), 0, 1));
      return mul(s, std::move(low), any_scaling);
    }();
    return {add(s, pretrained, update)};
  };
}

class Adapters {
 public:
  Adapters(Session& s, const LitgptLoraRequest& request)
      : s_(s),
        request_(request),
        config_(request.config),
        kind_{request.dtype, s.settings.device} {}

  void run(Module& root) {
    if (root.class_name != "LitgptGPT")
      throw Error({.where = "litgpt's LoRA",
                   .what = "is known for litgpt's own model, not for a " + root.class_name,
                   .way_out = "give the model as model_type litgpt"});
    for (const NamedParameter& p : named_parameters_of(root)) p.tensor().set_requires_grad(false);
    const LitgptLora& lora = request_.lora;
    for (Module* module : modules_of(root)) {
      if (module->class_name == "LitgptCausalSelfAttention") {
        if (lora.query || lora.key || lora.value) replace(*module, "attn", true);
        if (lora.projection) replace(*module, "proj", false);
      } else if (lora.mlp && module->class_name.ends_with("MLP")) {
        for (Module::Child& child : module->children) child.module = adapted(child.module, false);
      }
    }
    if (lora.head) replace(root, "lm_head", false);
    name_modules(root);
  }

 private:
  void replace(Module& parent, std::string_view name, bool fused) const {
    for (Module::Child& child : parent.children)
      if (child.name == name) child.module = adapted(child.module, fused);
  }

  Tensor trained(const Dims& sizes) const {
    const Tensor tensor = empty(s_, sizes, kind_);
    tensor.set_requires_grad(true);
    return tensor;
  }

  Widths widths() const {
    const LitgptLora& lora = request_.lora;
    const std::int64_t heads = config_.integer("num_attention_heads");
    const std::int64_t groups = config_.integer("num_key_value_heads");
    const std::int64_t size = config_.integer("head_dim");
    Widths result{.all = lora.query && lora.key && lora.value, .grouped = heads != groups};
    if (lora.query) result.adapted.push_back(heads * size);
    if (lora.key) result.adapted.push_back(groups * size);
    if (lora.value) result.adapted.push_back(groups * size);
    return result;
  }

  /// The layer with lora_A and lora_B beside it; of query, key and value each has a part of both.
  std::shared_ptr<Module> adapted(const std::shared_ptr<Module>& linear, bool fused) const {
    const auto packed = request_.quantized.find(linear.get());
    const Dims sizes = packed ? packed->shape() : linear->parameters[0].tensor.sizes();
    auto wrapper = std::make_shared<Module>();
    wrapper->class_name = fused ? "LoRAQKVLinear" : "LoRALinear";
    wrapper->children.push_back({"linear", linear});
    const Widths parts = fused ? widths() : Widths{.adapted = {sizes[0]}};
    std::int64_t width = 0;
    for (const std::int64_t part : parts.adapted) width += part;
    const std::int64_t rank = request_.lora.rank;
    const auto count = static_cast<std::int64_t>(parts.adapted.size());
    wrapper->parameters.push_back({"lora_A", trained({rank * count, sizes[1]})});
    wrapper->parameters.push_back({"lora_B", trained({width, rank})});
    if (fused && !parts.all)
      wrapper->buffers.push_back(
          {"_lora_ind", empty(s_, {width}, {Dtype::int64, s_.settings.device}), false});
    wrapper->forward = fused ? fused_forward(parts, sizes[0], request_.lora.dropout)
                             : plain_forward(request_.lora.dropout);
    return wrapper;
  }

  Session& s_;
  const LitgptLoraRequest& request_;
  ModelConfig config_;
  Like kind_;
};

}  // namespace

void put_litgpt_lora(Session& s, Module& root, const LitgptLoraRequest& request) {
  const NoGrad no_grad(s);
  Adapters(s, request).run(root);
}

}  // namespace shardscope::eager
