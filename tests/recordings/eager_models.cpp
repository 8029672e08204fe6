#include "tests/recordings/eager_models.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/format/json_reader.h"
#include "core/model/huggingface.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/models/make_module.h"
#include "core/pytorch/engine/reductions.h"
#include "tests/recordings/recorded_models.h"

namespace shardscope::recordings {
namespace {

using Json = nlohmann::ordered_json;
using namespace eager;
using eager::Module;  // not the model's

/// Classes of torch.nn with parameters; others made on the spot only run their children.
constexpr const char* layer_classes[] = {
    "Linear",      "Conv1d",      "Conv2d",         "Conv3d",          "ConvTranspose1d",
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d",    "ConvTranspose2d", "ConvTranspose3d",
    "LayerNorm",   "GroupNorm",   "InstanceNorm1d", "InstanceNorm2d",  "Embedding",
    "RMSNorm",     "PReLU",       "InstanceNorm3d", "Bilinear"};

bool is_layer(const std::string& class_name) {
  return std::find(std::begin(layer_classes), std::end(layer_classes), class_name) !=
         std::end(layer_classes);
}

/// A layer as one node: its gradients arrive with that of its input.
Tensor as_one_node(Session& s, const Tensor& input, const std::vector<Module::NamedTensor>& own) {
  Tensors inputs{input};
  for (const Module::NamedTensor& parameter : own)
    if (parameter.tensor.defined()) inputs.push_back(parameter.tensor);
  std::vector<std::pair<Like, Dims>> kinds;
  for (const Tensor& tensor : inputs) kinds.emplace_back(like(tensor), tensor.sizes());
  return apply_function(
             s, "LayerBackward", inputs,
             [&](Session& session, const NodeRef&) -> Tensors {
               return {empty(session, input.sizes(), like(input))};
             },
             [kinds](Session& session, Node& node, Tensors&) {
               Tensors gradients;
               for (std::size_t i = 0; i < kinds.size(); ++i)
                 gradients.push_back(node.needs(i) ? empty(session, kinds[i].second, kinds[i].first)
                                                   : Tensor());
               return gradients;
             })
      .front();
}

Tensors layer_forward(Session& s, Module& module, const Arguments& arguments) {
  const Tensor& input = arguments[0];
  if (module.class_name == "Linear" && input.size(-1) == module.parameters[0].tensor.size(1))
    return {linear(s, input, module.parameters[0].tensor,
                   module.parameters.size() > 1 ? module.parameters[1].tensor : Tensor())};
  return {as_one_node(s, input, module.parameters)};
}

Tensors children_forward(Session& s, Module& module, const Arguments& arguments) {
  Tensor x = arguments[0];
  for (const Module::Child& child : module.children) x = call_one(s, *child.module, {x});
  return {x};
}

Module::Forward forward_in_order(const std::vector<std::string>& order) {
  return [order](Session& s, Module& module, const Arguments& arguments) -> Tensors {
    Tensor x = arguments[0];
    for (const std::string& name : order) x = call_one(s, module.child(name), {x});
    return {x};
  };
}

std::string own_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

/// Builds a tree of modules; names of one object share it.
class TreeBuilder {
 public:
  TreeBuilder(Session& s, const ModuleTree& tree)
      : s_(s), tree_(tree), parameters_(tree.parameters.size()), modules_(tree.modules.size()) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const TreeParameter& p = tree.parameters[i];
      if (p.same_as)
        parameters_[i] = parameters_[static_cast<std::size_t>(*p.same_as)];
      else
        parameters_[i] =
            empty(s_, Dims(std::span(p.shape)), {.dtype = p.dtype, .device = s_.settings.device});
    }
  }

  std::shared_ptr<Module> build(std::size_t index) {
    const TreeModule& given = tree_.modules[index];
    if (given.same_as) return modules_[static_cast<std::size_t>(*given.same_as)];
    auto module = std::make_shared<Module>();
    modules_[index] = module;
    module->name = given.name;
    module->class_name = given.class_name;
    for (const std::int32_t id : given.parameters) {
      const auto at = static_cast<std::size_t>(id);
      module->parameters.push_back(
          {.name = own_part(tree_.parameters[at].name), .tensor = parameters_[at]});
    }
    for (const std::int32_t child : given.children) {
      const auto at = static_cast<std::size_t>(child);
      module->children.push_back({own_part(tree_.modules[at].name), build(at)});
    }
    module->forward = is_layer(given.class_name) ? layer_forward : children_forward;
    return module;
  }

 private:
  Session& s_;
  const ModuleTree& tree_;
  Tensors parameters_;
  std::vector<std::shared_ptr<Module>> modules_;
};

std::shared_ptr<Module> transformers_module(Session& s, const Json& spec) {
  const JsonValue config = JsonValue::parse(recorded_config(spec).dump(), "spec");
  const Model model = model_of_config(
      config, {.class_name = spec.at("hf").get<std::string>(), .constructor = true});
  return make_module(
      s, model, config,
      {.attention = AttentionImplementation::eager, .experts = ExpertsImplementation::loop});
}

/// requires_grad and dtype of each parameter, which sharding may have changed.
void take_over(Session& s, Module& root, const ModuleTree& tree) {
  for (const NamedParameter& named : named_parameters_of(root)) {
    const auto at = std::find_if(tree.parameters.begin(), tree.parameters.end(),
                                 [&](const TreeParameter& p) { return p.name == named.name; });
    if (at == tree.parameters.end()) continue;
    if (named.tensor().dtype() != at->dtype)
      named.tensor().set_data(empty(s, named.tensor().sizes(), like(named.tensor(), at->dtype)));
    named.tensor().set_requires_grad(at->trainable);
  }
}

}  // namespace

std::shared_ptr<Module> eager_module(Session& s, const Json& spec, const ModuleTree& tree,
                                     const std::vector<std::string>& order) {
  const std::shared_ptr<Module> root =
      spec.contains("hf") ? transformers_module(s, spec) : TreeBuilder(s, tree).build(0);
  take_over(s, *root, tree);
  if (!order.empty()) root->forward = forward_in_order(order);
  return root;
}

Arguments eager_input(Session& s, const Json& spec) {
  const Device device = s.settings.device;
  if (!spec.contains("hf")) {
    const auto sizes = spec.at("input").get<std::vector<std::int64_t>>();
    return {empty(s, Dims(std::span(sizes)), {.dtype = Dtype::float32, .device = device})};
  }
  const auto sizes = spec.value("input", std::vector<std::int64_t>{2, 4});
  const Like integers{.dtype = Dtype::int64, .device = device};
  const Tensor ids = empty(s, Dims(std::span(sizes)), integers);
  const bool classifies =
      spec.at("hf").get<std::string>().find("Classification") != std::string::npos;
  return {{ids, Tensor(), classifies ? empty(s, {sizes[0]}, integers) : ids}, 0};
}

Tensor eager_loss(Session& s, const Json& spec, const Tensors& outputs) {
  return spec.contains("hf") ? outputs.front() : sum(s, outputs.front());
}

}  // namespace shardscope::recordings
