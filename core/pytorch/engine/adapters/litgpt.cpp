#include "core/pytorch/engine/adapters/litgpt.h"

#include <memory>
#include <string>
#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/models/adaption_prompt.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/pointwise.h"

namespace shardscope::eager {
namespace {

bool is_norm(const Module& module) { return module.class_name.ends_with("Norm"); }
bool is_attention(const Module& module) { return module.class_name.ends_with("Attention"); }

/// Puts the parts of an adapter on a model.
class Additions {
 public:
  Additions(Session& s, const LitgptAdapterRequest& request)
      : s_(s),
        request_(request),
        config_(request.config),
        kind_{request.dtype, s.settings.device} {}

  void run(Module& root) {
    for (const NamedParameter& p : named_parameters_of(root)) p.tensor().set_requires_grad(false);
    for (Module* module : modules_of(root)) {
      if (is_attention(*module)) add_prompt(*module);
      if (!request_.adapter.of_version_2) continue;
      if (is_norm(*module)) train(*module);
      for (Module::Child& child : module->children)
        if (is_linear(*child.module)) child.module = scaled(std::move(child.module));
    }
  }

 private:
  bool is_linear(const Module& module) const {
    return module.class_name == "Linear" || request_.quantized.find(&module) != nullptr;
  }

  Tensor trained(const Dims& sizes) const {
    const Tensor tensor = empty(s_, sizes, kind_);
    tensor.set_requires_grad(true);
    return tensor;
  }

  static void train(Module& module) {
    for (const Module::NamedTensor& own : module.parameters)
      if (own.tensor) own.tensor.set_requires_grad(true);
  }

  void add_prompt(Module& attention) const {
    const LitgptAdapter& adapter = request_.adapter;
    if (layer_number(attention.name) < static_cast<std::size_t>(adapter.first_layer)) return;
    attention.parameters.push_back(
        {std::string(adaption_prompt),
         trained({adapter.prompt_length, config_.integer("hidden_size")})});
    attention.parameters.push_back(
        {std::string(gating_factor), trained({1, 1, config_.integer("num_attention_heads"), 1})});
  }

  /// AdapterV2Linear around a linear layer, whose weight may be packed.
  std::shared_ptr<Module> scaled(std::shared_ptr<Module> linear) const {
    const auto packed = request_.quantized.find(linear.get());
    const std::int64_t outputs = packed ? packed->shape()[0] : linear->parameters[0].tensor.size(0);
    auto wrapper = std::make_shared<Module>();
    wrapper->name = linear->name;
    wrapper->class_name = "AdapterV2Linear";
    wrapper->children.push_back({"linear", std::move(linear)});
    wrapper->parameters.push_back({"adapter_bias", trained({outputs})});
    wrapper->parameters.push_back({"adapter_scale", trained({outputs})});
    wrapper->forward = [](Session& s, Module& me, const Arguments& arguments) -> Tensors {
      Tensor result = call_one(s, *me.children[0].module, {arguments[0]});
      result = add(s, std::move(result), me.parameter("adapter_bias"));
      return {mul(s, me.parameter("adapter_scale"), std::move(result))};
    };
    return wrapper;
  }

  Session& s_;
  const LitgptAdapterRequest& request_;
  ModelConfig config_;
  Like kind_;
};

}  // namespace

void put_litgpt_adapter(Session& s, Module& root, const LitgptAdapterRequest& request) {
  const NoGrad no_grad(s);
  Additions(s, request).run(root);
}

}  // namespace shardscope::eager
