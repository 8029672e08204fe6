#include "core/pytorch/engine/models/make_module.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <string>

#include "core/base/error.h"
#include "core/model/config_text.h"
#include "core/model/family.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/models/rotary_buffers.h"

namespace shardscope::eager {
namespace {

std::string_view parent_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

/// Builds the tree of a Model's tables: modules, then what is registered with them.
class TreeBuilder {
 public:
  TreeBuilder(Session& s, const shardscope::Model& model, bool default_rope)
      : s_(s), model_(model), default_rope_(default_rope) {}

  /// As the constructors run: module by module, each with its parameters and buffers. A tied
  /// parameter has one of its own until the end, when the first one takes its place.
  std::shared_ptr<Module> build() {
    for (const shardscope::Module& row : model_.modules) add_module(row);
    for (const Parameter& parameter : model_.parameters)
      tables_[parent_name(parameter.name)].parameters.push_back(&parameter);
    for (const ModelBuffer& buffer : model_.buffers)
      tables_[parent_name(buffer.name)].buffers.push_back(&buffer);
    for (const TiedName& tied : model_.tied) tables_[parent_name(tied.later)].tied.push_back(&tied);
    Tensors replaced;
    for (const shardscope::Module& row : model_.modules) fill(tables_[row.name], replaced);
    for (const TiedName& tied : model_.tied)
      register_parameter(tied.later, tensors_.at(tied.first));
    return modules_.at("");
  }

 private:
  void add_module(const shardscope::Module& row) {
    const std::shared_ptr<Module> module =
        row.same_as.empty() ? std::make_shared<Module>() : modules_.at(row.same_as);
    if (row.same_as.empty()) {
      module->name = row.name;
      module->class_name = row.class_name;
      module->index = static_cast<int>(modules_.size());
    }
    modules_.emplace(row.name, module);
    if (!row.name.empty())
      modules_.at(std::string(parent_name(row.name)))
          ->children.push_back({std::string(own_name(row.name)), module});
  }

  struct Table {
    std::vector<const Parameter*> parameters;
    std::vector<const ModelBuffer*> buffers;
    std::vector<const TiedName*> tied;
  };

  void fill(const Table& table, Tensors& replaced) {
    for (const Parameter* parameter : table.parameters) add_parameter(*parameter);
    for (const TiedName* tied : table.tied) {
      const Tensor& first = tensors_.at(tied->first);
      replaced.push_back(allocate(s_, like(first), first.sizes()));
    }
    for (const ModelBuffer* buffer : table.buffers) add_buffer(*buffer);
  }

  Tensor fresh(const Shape& shape, Dtype dtype) {
    return allocate(s_, {dtype, s_.settings.device}, Dims(std::span(shape)));
  }

  void register_parameter(const std::string& name, const Tensor& tensor) {
    modules_.at(std::string(parent_name(name)))
        ->parameters.push_back({std::string(own_name(name)), tensor});
  }

  void add_parameter(const Parameter& parameter) {
    const Tensor tensor = fresh(parameter.shape, parameter.dtype);
    tensor.set_requires_grad(parameter.trainable);
    tensors_.emplace(parameter.name, tensor);
    register_parameter(parameter.name, tensor);
  }

  void add_buffer(const ModelBuffer& buffer) {
    Module& module = *modules_.at(std::string(parent_name(buffer.name)));
    const std::string name(own_name(buffer.name));
    module.buffers.push_back({name, make_buffer(module, name, buffer), buffer.persistent});
  }

  Tensor make_buffer(Module& module, const std::string& name, const ModelBuffer& buffer) {
    if (!default_rope_ || buffer.dtype != Dtype::float32) return fresh(buffer.shape, buffer.dtype);
    if (name == "inv_freq") return default_inverse_frequencies(s_, buffer.shape.at(0));
    if (name != "original_inv_freq") return fresh(buffer.shape, buffer.dtype);
    Tensor original = clone(s_, module.buffer("inv_freq"));
    // PreTrainedModel._init_weights makes them again and copies them in.
    default_inverse_frequencies(s_, buffer.shape.at(0));
    return original;
  }

  Session& s_;
  const shardscope::Model& model_;
  bool default_rope_;  // of one type for all layers
  std::map<std::string, std::shared_ptr<Module>, std::less<>> modules_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  std::map<std::string_view, Table> tables_;  // by module
};

const std::array tables{common_forwards,
                        bert_forwards,
                        bloom_forwards,
                        gated_decoder_forwards,
                        gpt2_forwards,
                        gpt_neox_forwards,
                        gptj_forwards,
                        mixtral_forwards,
                        mixtral_head_forwards,
                        opt_forwards,
                        roberta_forwards,
                        t5_attention_forwards,
                        t5_forwards};

const ClassForward* find_forward(std::string_view class_name) {
  for (const auto& table : tables)
    for (const ClassForward& row : table())
      if (row.class_name == class_name) return &row;
  return nullptr;
}

void give_forwards(const Context& context, Module& module) {
  for (const Module::Child& child : module.children) give_forwards(context, *child.module);
  if (const ClassForward* row = find_forward(module.class_name))
    module.forward = row->make(context, module);
}

bool has_default_rope(const ModelConfig& config) {
  const std::optional<JsonValue> rope = config.find("rope_parameters");
  if (!rope || !rope->is_object()) return false;
  const std::optional<JsonValue> type = rope->find("rope_type");
  return type && type->is_string() && type->string() == "default";
}

}  // namespace

ModelSettings usual_settings(const shardscope::Model& model) {
  const bool fused = has_sdpa(model);
  return {.attention = fused ? AttentionImplementation::sdpa : AttentionImplementation::eager,
          .has_sdpa = fused};
}

std::shared_ptr<Module> make_module_tree(Session& s, const shardscope::Model& model,
                                         bool default_rope) {
  return TreeBuilder(s, model, default_rope).build();
}

std::shared_ptr<Module> make_module(Session& s, const shardscope::Model& model,
                                    const JsonValue& config, const ModelSettings& settings) {
  if (!find_forward(model.class_name))
    throw Error({.where = "class " + model.class_name,
                 .what = "its forward in PyTorch is not known here",
                 .way_out = "use a class with a head for language modelling"});
  const auto context = std::make_shared<ModelContext>(ModelContext{
      ModelConfig(JsonValue::parse(config_text(config, model), "config.json"), settings.dropout),
      settings});
  std::shared_ptr<Module> root = make_module_tree(s, model, has_default_rope(context->config));
  give_forwards(context, *root);
  return root;
}

}  // namespace shardscope::eager
