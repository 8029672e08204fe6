#include "core/pytorch/engine/adapters/lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "core/base/error.h"
#include "core/model/lora_conversion.h"
#include "core/pytorch/engine/adapters/adalora.h"
#include "core/pytorch/engine/adapters/adapter_modules.h"
#include "core/pytorch/engine/adapters/dora.h"
#include "core/pytorch/engine/adapters/lora_embedding.h"
#include "core/pytorch/engine/adapters/lora_parameter.h"
#include "core/pytorch/engine/aten/matmul.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/iterator.h"
#include "core/pytorch/engine/pointwise.h"

namespace shardscope::eager {
namespace {

/// A Python float whose value decides nothing here.
constexpr double any_scaling = 0.5;

Tensors linear_forward(Session& s, Module& me, const Arguments& arguments) {
  // FSDP1 puts its flat parameter into a module that it wraps.
  const bool has_bias = me.parameters.size() > 1 && me.parameters[1].name == "bias";
  const Tensor bias = has_bias ? me.parameters[1].tensor : Tensor();
  return {linear(s, arguments[0], me.parameters[0].tensor, bias)};
}

/// x.to(dtype) of the input, unless it has it.
Tensor cast_input(Session& s, const Tensor& x, const Module& adapter) {
  return to(s, x, adapter_weight(adapter).dtype());
}

/// lora_B(lora_A(dropout(x))) * scaling.
Tensor update_of(Session& s, const LoraParts& parts, const Tensor& x) {
  Tensor update = call_one(s, parts.dropout, {x});
  update = call_one(s, parts.a, {std::move(update)});
  update = call_one(s, parts.b, {std::move(update)});
  return mul(s, std::move(update), any_scaling);
}

/// peft/tuners/lora/layer.py, Linear.forward.
Tensors plain_forward(Session& s, Module& me, const Arguments& arguments) {
  const LoraParts parts(me);
  Tensor x = arguments[0];
  Tensor result = call_one(s, parts.base, {x});
  const Dtype given = result.dtype();
  x = cast_input(s, x, parts.a);
  result = add(s, result, update_of(s, parts, x));
  result = to(s, result, given);
  x.reset();
  return {std::move(result)};
}

Tensors dora_forward(Session& s, Module& me, const Arguments& arguments) {
  const LoraParts parts(me);
  Tensor x = arguments[0];
  Tensor result = call_one(s, parts.base, {x});
  const Dtype given = result.dtype();
  x = cast_input(s, x, parts.a);
  result = dora_result(s, me, x, std::move(result));
  result = to(s, result, given);
  x.reset();
  return {std::move(result)};
}

/// peft/tuners/lora/bnb.py, Linear4bit.forward and Linear8bitLt.forward: under autocast nothing is
/// cast by hand.
Module::Forward quantized_forward(bool clones) {
  return [clones](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    const LoraParts parts(me);
    const bool converts = !s.autocast.enabled;
    Tensor x = arguments[0];
    Tensor result = call_one(s, parts.base, {x});
    if (clones) result = clone(s, result);
    const Dtype given = result.dtype();
    if (converts) x = cast_input(s, x, parts.a);
    Tensor output = update_of(s, parts, x);
    if (converts) output = to(s, output, given);
    result = add(s, result, output);
    x.reset();
    return {std::move(result)};
  };
}

Module::Forward quantized_dora_forward(bool clones) {
  return [clones](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    const LoraParts parts(me);
    const bool converts = !s.autocast.enabled;
    Tensor x = arguments[0];
    Tensor result = call_one(s, parts.base, {x});
    if (clones) result = clone(s, result);
    const Dtype given = result.dtype();
    if (converts) x = cast_input(s, x, parts.a);
    result = dora_result(s, me, x, std::move(result));
    if (converts) result = to(s, result, given);
    x.reset();
    return {std::move(result)};
  };
}

bool is_conv1d(const Module& module) { return module.class_name == "Conv1D"; }
bool is_linear(const Module& module) { return module.class_name == "Linear" || is_conv1d(module); }

/// A Linear for PEFT whose forward gives two tensors: with an adapter the first step fails.
bool is_router(const Module& module) { return module.class_name == "Llama4Router"; }

using Quantized = std::shared_ptr<const QuantizedLayer>;

struct Found {
  std::string name;
  Module* parent = nullptr;
  std::size_t place = 0;  ///< among the parent's children
};

/// named_modules(remove_duplicate) without the root, as they are before anything is replaced.
void list_modules(Module& module, const std::string& name, std::unordered_set<const Module*>& seen,
                  std::vector<Found>& found) {
  for (std::size_t i = 0; i < module.children.size(); ++i) {
    Module& child = *module.children[i].module;
    if (!seen.insert(&child).second) continue;
    const std::string full =
        name.empty() ? module.children[i].name : name + "." + module.children[i].name;
    found.push_back({full, &module, i});
    list_modules(child, full, seen, found);
  }
}

std::vector<Found> modules_below(Module& root) {
  std::vector<Found> found;
  std::unordered_set<const Module*> seen;
  list_modules(root, "", seen, found);
  return found;
}

/// Puts LoRA layers into a model, as LoraModel and its layers do.
class Injection {
 public:
  Injection(Session& s, const std::shared_ptr<Module>& model, const AdapterRequest& request)
      : s_(s),
        model_(model),
        request_(request),
        config_(converted(request, *model)),
        targets_(config_) {}

  void run() {
    add_layers();
    add_to_parameters();
    check_found();
    freeze();
    save_whole();
    if (config().autocast_adapter_dtype) cast_adapters();
  }

 private:
  const LoraConfig& config() const { return config_; }

  LoraTargets::Candidate candidate(const Found& found) const {
    const std::shared_ptr<Module>& place = found.parent->children[found.place].module;
    return {.name = found.name,
            .is_linear = is_linear(*place) || request_.quantized.find(place.get()) != nullptr ||
                         is_router(*place),
            .is_output_embedding = found.name == request_.output_embedding};
  }

  LoraConfig converted(const AdapterRequest& request, Module& model) const {
    if (request.converted_family.empty()) return request.config;
    const std::vector<Found> modules = modules_below(model);
    AdaptedNames names{.family = request.converted_family};
    for (const Found& found : modules) names.modules.push_back(candidate(found));
    for (const NamedParameter& p : named_parameters_of(model)) names.parameters.push_back(p.name);
    return converted_for_transformers_5(request.config, names);
  }

  void add_layers() {
    for (const Found& found : modules_below(*model_)) {
      std::shared_ptr<Module>& place = found.parent->children[found.place].module;
      const Quantized quantized = request_.quantized.find(place.get());
      const bool linear = is_linear(*place) || quantized != nullptr;
      if (!targets_.has(candidate(found))) continue;
      const std::int64_t rank = targets_.rank_of(found.name);
      if (linear)
        place = lora_layer(place, rank, quantized);
      else if (is_embedding(*place) && !config().adaptive_rank)
        place = embedding_adapter(s_, place, rank, config());
      else
        throw Error({.where = "target_modules: " + found.name,
                     .what = fmt::format("a {} gets no adapter here: only linear layers{} do",
                                         place->class_name,
                                         config().adaptive_rank ? "" : " and embeddings"),
                     .way_out = "name such layers, or put it under modules_to_save"});
      layers_.push_back(place.get());
    }
  }

  /// _inject_parameters. A quantised layer gets the adapter of a layer.
  void add_to_parameters() {
    if (config().target_parameters.empty()) return;
    if (config().adaptive_rank)
      throw Error({.where = "target_parameters",
                   .what = "PEFT's AdaLoRA has none and raises TypeError",
                   .way_out = "leave them out, or take LoRA"});
    for (const Found& found : modules_below(*model_)) {
      Module& owner = *found.parent->children[found.place].module;
      const std::string name = without_base_layers(found.name);
      const std::vector<Module::NamedTensor> listed = owner.parameters;
      for (const Module::NamedTensor& own : listed) {
        const std::string key = name + "." + own.name;
        if (!own.tensor || !own.registered || !is_target_parameter(config(), key)) continue;
        if (name != found.name)
          throw Error({.where = "target_parameters: " + key,
                       .what = "its layer has an adapter by target_modules, too",
                       .way_out = "name it in one of the two"});
        std::shared_ptr<Module>& place = found.parent->children[found.place].module;
        const Quantized quantized = request_.quantized.find(&owner);
        place = quantized ? lora_layer(place, targets_.rank_of(key), quantized)
                          : parameter_adapter(s_, place,
                                              {.parameter = own.name,
                                               .key = key,
                                               .rank = targets_.rank_of(key),
                                               .scaling = targets_.scaling_of(key)},
                                              config());
        layers_.push_back(place.get());
      }
    }
  }

  void check_found() const {
    if (layers_.empty() && config().targets.empty() && !config().target_parameters.empty())
      throw Error({.where = "target_parameters",
                   .what = "no parameter of the model is named so",
                   .way_out = "`shardscope model MODEL` lists the model's parameters"});
    if (layers_.empty() && config().usual_targets && config().targets.empty())
      throw Error({.where = "target_modules",
                   .what = fmt::format("PEFT takes none by itself for model_type {} under "
                                       "transformers 5",
                                       request_.converted_family),
                   .way_out = "give target_modules, for example [\"q_proj\", \"v_proj\"]"});
    if (layers_.empty())
      throw Error({.where = "target_modules",
                   .what = "no module of the model is named so",
                   .way_out = "`shardscope model MODEL` lists the model's modules"});
  }

  /// _get_base_layer_device_and_dtype: what an adapter is made in.
  Like kind_of_adapter(const Module& base, const Quantized& quantized) const {
    const Tensor& weight = base.parameters[0].tensor;
    Dtype dtype = weight.dtype();
    if (quantized) dtype = quantized->adapter_dtype();
    return {is_floating(dtype) ? dtype : Dtype::float32, weight.device()};
  }

  std::shared_ptr<Module> lora_layer(std::shared_ptr<Module> base, std::int64_t rank,
                                     const Quantized& quantized) {
    const Dims sizes = quantized ? quantized->shape() : base->parameters[0].tensor.sizes();
    const bool turned = !quantized && is_conv1d(*base);
    const std::int64_t in = turned ? sizes[0] : sizes[1];
    const std::int64_t out = turned ? sizes[1] : sizes[0];
    const Like like = kind_of_adapter(*base, quantized);
    if (config().adaptive_rank) {
      if (quantized)
        throw Error({.where = "AdaLoRA",
                     .what = "is not modelled on a quantised base",
                     .way_out = "leave the quantisation out, or give LoRA"});
      return adalora_layer(s_, std::move(base), {in, out, rank}, config().dropout, like);
    }
    auto layer = container(quantized ? "lora." + base->class_name : "lora.Linear");
    const auto a = linear_of(s_, in, rank, false, like);
    const auto b = linear_of(s_, rank, out, config().lora_bias, like);
    const DoraInit dora{.layer = *layer,
                        .base = *base,
                        .quantized = quantized,
                        .a = a->parameters[0].tensor,
                        .b = b->parameters[0].tensor,

                        .turned = turned};
    layer->children = {{"base_layer", std::move(base)},
                       {"lora_dropout", dict_of(dropout_of(config().dropout))},
                       {"lora_A", dict_of(a)},
                       {"lora_B", dict_of(b)},
                       {"lora_embedding_A", container("ParameterDict")},
                       {"lora_embedding_B", container("ParameterDict")},
                       {"lora_magnitude_vector", dict_of(nullptr)}};
    if (config().dora)
      layer->child("lora_magnitude_vector").children.push_back({"default", dora_layer(s_, dora)});
    layer->forward = forward_of_layer(quantized);
    return layer;
  }

  Module::Forward forward_of_layer(const Quantized& quantized) const {
    if (!quantized) return config().dora ? dora_forward : plain_forward;
    const bool clones = quantized->is_4bit();
    return config().dora ? quantized_dora_forward(clones) : quantized_forward(clones);
  }

  /// Only lora_ parameters train; and biases, where the config says so.
  void freeze() {
    for (const NamedParameter& p : named_parameters_of(*model_)) {
      const bool is_bias = p.name.find("bias") != std::string::npos;
      p.tensor().set_requires_grad(p.name.find("lora_") != std::string::npos ||
                                   (config().bias == LoraBias::all && is_bias));
    }
    if (config().trains_rank_count)
      for (Module* layer : layers_)
        if (is_adalora(*layer)) rank_count_of(*layer).set_requires_grad(true);
    if (config().bias != LoraBias::lora_only) return;
    for (Module* layer : layers_)
      for (const Module::NamedTensor& own : layer->child("base_layer").parameters)
        if (own.name == "bias" && own.tensor) own.tensor.set_requires_grad(true);
  }

  /// copy.deepcopy of a module with parameters and no children.
  std::shared_ptr<Module> copied(const Module& module) {
    auto copy = std::make_shared<Module>(module);
    const NoGrad no_grad(s_);
    for (Module::NamedTensor& own : copy->parameters) {
      if (!own.tensor) continue;
      own.tensor = clone(s_, own.tensor);
      own.tensor.set_requires_grad(true);
    }
    for (Module::NamedTensor& own : copy->buffers) {
      if (!own.tensor) continue;
      own.tensor = clone(s_, own.tensor);
      empty(s_, {}, like(own.tensor));  // Tensor.__deepcopy__: new_empty([]) takes the storage
    }
    return copy;
  }

  void save_whole() {
    for (const Found& found : modules_below(*model_)) {
      if (!is_saved_whole(config(), found.name)) continue;
      std::shared_ptr<Module>& place = found.parent->children[found.place].module;
      if (!place->children.empty())
        throw Error({.where = "modules_to_save: " + found.name,
                     .what = fmt::format("a {} has modules of its own, which is not modelled here",
                                         place->class_name),
                     .way_out = "name layers without children, for example lm_head"});
      auto wrapper = container("ModulesToSaveWrapper");
      for (const Module::NamedTensor& own : place->parameters)
        if (own.tensor) own.tensor.set_requires_grad(false);
      const std::shared_ptr<Module> copy = copied(*place);
      wrapper->children = {{"original_module", place}, {"modules_to_save", dict_of(copy)}};
      wrapper->forward = [](Session& s, Module& me, const Arguments& arguments) {
        return call(s, me.child("modules_to_save").child("default"), arguments);
      };
      place = std::move(wrapper);
    }
  }

  /// peft/tuners/tuners_utils.py, cast_adapter_dtype: a new parameter each. All of a module's are
  /// held until the last of them is cast, and that one by the loop's variable until the next.
  void cast_adapters() {
    Tensor before;
    for (Module* layer : layers_as_they_stand()) {
      if (layer->class_name == "lora.Embedding") {
        cast_embedding_adapter(s_, *layer, Dtype::float32);
        continue;
      }
      if (is_adalora(*layer)) {
        cast_adalora(s_, *layer, Dtype::float32);
        continue;
      }
      for (const char* dict : {"lora_A", "lora_B", "lora_magnitude_vector"})
        for (const Module::Child& child : layer->child(dict).children) {
          const std::vector<Module::NamedTensor> listed = child.module->parameters;
          for (Module::NamedTensor& own : child.module->parameters) {
            before = own.tensor;
            if (before.dtype() != Dtype::bfloat16 && before.dtype() != Dtype::float16) continue;
            const NoGrad no_grad(s_);
            own.tensor = to(s_, before, Dtype::float32);
            own.tensor.set_requires_grad(before.requires_grad());
          }
        }
    }
  }

  /// In the order of the tree; adapters of two parameters of one module from the inside.
  std::vector<Module*> layers_as_they_stand() const {
    if (config().target_parameters.empty()) return layers_;
    const std::unordered_set<const Module*> known(layers_.begin(), layers_.end());
    std::vector<Module*> ordered;
    std::vector<Module*> nested;
    for (Module* module : modules_of(*model_)) {
      if (!known.contains(module)) continue;
      nested.push_back(module);
      if (known.contains(&module->child("base_layer"))) continue;
      ordered.insert(ordered.end(), nested.rbegin(), nested.rend());
      nested.clear();
    }
    return ordered;
  }

  Session& s_;
  const std::shared_ptr<Module>& model_;
  const AdapterRequest& request_;
  LoraConfig config_;
  LoraTargets targets_;
  std::vector<Module*> layers_;
};

/// A module that only calls its one child's forward, past its hooks: LoraModel.forward. AdaLoRA's
/// adds to the loss.
std::shared_ptr<Module> lora_model(std::shared_ptr<Module> model, bool adaptive_rank) {
  auto wrapper = container("LoraModel");
  wrapper->children.push_back({"model", std::move(model)});
  wrapper->forward = [adaptive_rank](Session& s, Module& me, const Arguments& arguments) {
    Module& inner = *me.children[0].module;
    Tensors outputs = inner.forward(s, inner, arguments);
    if (adaptive_rank && outputs[0])
      outputs[0] = with_orthogonality(s, inner, std::move(outputs[0]));
    return outputs;
  };
  return wrapper;
}

void name_all(Module& module, const std::string& name, int& next) {
  module.name = name;
  module.index = next++;
  for (const Module::Child& child : module.children)
    name_all(*child.module, name.empty() ? child.name : name + "." + child.name, next);
}

}  // namespace

std::shared_ptr<Module> linear_of(Session& s, std::int64_t in, std::int64_t out, bool bias,
                                  Like like) {
  auto module = container("Linear");
  const auto add = [&](const char* name, const Dims& sizes) {
    const Tensor tensor = empty(s, sizes, like);
    tensor.set_requires_grad(true);
    module->parameters.push_back({name, tensor});
  };
  add("weight", {out, in});
  if (bias) add("bias", {out});
  module->forward = linear_forward;
  return module;
}

void name_modules(Module& root) {
  int next = 0;
  name_all(root, "", next);
}

Tensor adapter_weight(const Module& adapter) {
  const Module* module = &adapter;
  while (!module->children.empty()) module = module->children.front().module.get();
  return module->read(0);
}

LoraParts::LoraParts(Module& layer)
    : base(layer.child("base_layer")),
      dropout(layer.child("lora_dropout").child("default")),
      a(layer.child("lora_A").child("default")),
      b(layer.child("lora_B").child("default")),
      drops(dropout.class_name == "Dropout" && dropout.training) {}

std::shared_ptr<Module> put_adapter(Session& s, const std::shared_ptr<Module>& model,
                                    const AdapterRequest& request) {
  Injection(s, model, request).run();
  auto root = container("PeftModelForCausalLM");
  root->children.push_back({"base_model", lora_model(model, request.config.adaptive_rank)});
  root->forward = [](Session& session, Module& me, const Arguments& arguments) {
    return call(session, *me.children[0].module, arguments);
  };
  name_modules(*root);
  return root;
}

void require_input_gradients(Module& input_embedding) {
  input_embedding.forward_hooks.push_back(
      [](Session&, Module&, const Arguments&, Tensors& outputs) {
        outputs.front().set_requires_grad(true);
      });
}

}  // namespace shardscope::eager
