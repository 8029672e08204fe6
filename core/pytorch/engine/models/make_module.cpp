#include "core/pytorch/engine/models/make_module.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "core/base/error.h"
#include "core/model/config_text.h"
#include "core/model/family.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/models/heads.h"
#include "core/pytorch/engine/models/rotary_buffers.h"

namespace shardscope::eager {
namespace {

std::string_view parent_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

/// Names of a rotary embedding's buffers, behind the type of layers that they are for, if any.
constexpr std::string_view frequencies_name = "inv_freq", original_name = "original_inv_freq";

/// Inverse frequencies as transformers computes them.
using Frequencies = Tensor (*)(Session& s, std::int64_t count);

/// Builds the tree of a Model's tables: modules, then what is registered with them.
class TreeBuilder {
 public:
  /// `frequencies`: what makes the rotary buffers; null: they are there at once.
  TreeBuilder(Session& s, const shardscope::Model& model, Frequencies frequencies)
      : s_(s), model_(model), frequencies_(frequencies) {}

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
    for (const std::string* name : in_order_of_making()) fill(tables_[*name], replaced);
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

  /// Modules by when what they own themselves is made: before their children, but where the
  /// constructor makes these first.
  std::vector<const std::string*> in_order_of_making() const {
    constexpr std::array<std::string_view, 6> children_first{
        "AfmoeSparseMoeBlock", "BertEmbeddings",  "Gemma4TextDecoderLayer",
        "Gemma4TextRouter",    "GptOssAttention", "MiniMaxM2SparseMoeBlock"};
    std::vector<const std::string*> order, open;
    const auto close_before = [&](std::string_view next) {
      while (!open.empty() && !next.starts_with(*open.back() + ".")) {
        order.push_back(open.back());
        open.pop_back();
      }
    };
    for (const shardscope::Module& row : model_.modules) {
      close_before(row.name);
      const bool last = std::ranges::find(children_first, row.class_name) != children_first.end();
      (last ? open : order).push_back(&row.name);
    }
    close_before("");
    return order;
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
    make_frequencies_again(table);
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
    const bool are_frequencies =
        frequencies_ && buffer.dtype == Dtype::float32 && name.ends_with(frequencies_name);
    if (!are_frequencies) return fresh(buffer.shape, buffer.dtype);
    if (!name.ends_with(original_name)) return frequencies_(s_, buffer.shape.at(0));
    const std::string type = name.substr(0, name.size() - original_name.size());
    return clone(s_, module.buffer(type + std::string(frequencies_name)));
  }

  /// PreTrainedModel._init_weights makes them again and copies them in, of one type of layers after
  /// the other. Python lets go of one when it has the next.
  void make_frequencies_again(const Table& table) {
    Tensor last;
    for (const ModelBuffer* buffer : table.buffers)
      if (frequencies_ && buffer->dtype == Dtype::float32 && buffer->name.ends_with(original_name))
        last = frequencies_(s_, buffer->shape.at(0));
  }

  Session& s_;
  const shardscope::Model& model_;
  Frequencies frequencies_;
  std::map<std::string, std::shared_ptr<Module>, std::less<>> modules_;
  std::map<std::string, Tensor, std::less<>> tensors_;
  std::map<std::string_view, Table> tables_;  // by module
};

const std::array tables{common_forwards,       afmoe_forwards,        bert_forwards,
                        bloom_forwards,        deepseek_v3_forwards,  gated_decoder_forwards,
                        gemma4_forwards,       gpt2_forwards,         gpt_neox_forwards,
                        gpt_oss_forwards,      gptj_forwards,         lfm2_forwards,
                        litgpt_forwards,       llama4_forwards,       mixtral_forwards,
                        mixtral_head_forwards, opt_forwards,          qwen_forwards,
                        roberta_forwards,      t5_attention_forwards, t5_forwards};

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

/// Null: of a type that is not followed.
Frequencies frequencies_of_type(const JsonValue& parameters) {
  if (!parameters.is_object()) return nullptr;
  const std::optional<JsonValue> type = parameters.find("rope_type");
  if (!type || !type->is_string()) return nullptr;
  if (type->string() == "yarn") return yarn_inverse_frequencies;
  return type->string() == "default" ? default_inverse_frequencies : nullptr;
}

/// Null: of a type that is not followed, or not the same for all types of layers.
Frequencies frequencies_of(const ModelConfig& config) {
  const std::optional<JsonValue> rope = config.find("rope_parameters");
  if (!rope || !rope->is_object()) return nullptr;
  if (rope->find("rope_type")) return frequencies_of_type(*rope);
  Frequencies all = nullptr;
  for (const auto& [layers, parameters] : rope->members()) {
    const Frequencies one = frequencies_of_type(parameters);
    if (!one || (all && all != one)) return nullptr;
    all = one;
  }
  return all;
}

void check_liger(const ModelContext& context) {
  const std::string type = context.config.text("model_type");
  if (context.settings.liger.any() && liger_support(type) != LigerSupport::known)
    throw Error({.where = "Liger's kernels",
                 .what = fmt::format("those of the family {} are not known here", type),
                 .way_out = "leave them out, which needs more memory; or record a real run"});
}

}  // namespace

ModelSettings usual_settings(const shardscope::Model& model) {
  const bool fused = has_sdpa(model);
  return {.attention = fused ? AttentionImplementation::sdpa : AttentionImplementation::eager,
          .has_sdpa = fused};
}

bool makes_language_loss(const shardscope::Model& model) {
  const ClassForward* row = find_forward(model.class_name);
  return row && row->make == causal_language_forward;
}

std::shared_ptr<Module> make_module_tree(Session& s, const shardscope::Model& model,
                                         bool default_rope) {
  return TreeBuilder(s, model, default_rope ? default_inverse_frequencies : nullptr).build();
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
  check_liger(*context);
  std::shared_ptr<Module> root = TreeBuilder(s, model, frequencies_of(context->config)).build();
  give_forwards(context, *root);
  return root;
}

}  // namespace shardscope::eager
