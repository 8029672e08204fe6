#include "core/pytorch/engine/adapters/described.h"

#include <map>
#include <string>

namespace shardscope::eager {
namespace {

Shape shape_of(const Tensor& tensor) { return {tensor.sizes().begin(), tensor.sizes().end()}; }

class Description {
 public:
  explicit Description(shardscope::Model base) : model_(std::move(base)) {
    model_.parameters.clear();
    model_.tied.clear();
    model_.buffers.clear();
    model_.modules.clear();
    model_.registered_names.clear();
    model_.stored.clear();
    model_.decoder.reset();
    model_.trace.reset();
    model_.why_no_decoder = "adapters and quantised weights are PyTorch's alone";
  }

  shardscope::Model of(Module& root) {
    visit(root, "");
    return std::move(model_);
  }

 private:
  void visit(Module& module, const std::string& name) {
    shardscope::Module row{.name = name, .class_name = module.class_name};
    const auto [found, is_new] = names_.emplace(&module, name);
    if (!is_new) row.same_as = found->second;
    model_.modules.push_back(std::move(row));
    if (!is_new) return;
    const auto joined = [&](const std::string& own) {
      return name.empty() ? own : name + "." + own;
    };
    for (const Module::NamedTensor& own : module.parameters)
      if (own.tensor && own.registered) add(joined(own.name), own.tensor);
    for (const Module::NamedTensor& own : module.buffers)
      if (own.tensor)
        model_.buffers.push_back({.name = joined(own.name),
                                  .shape = shape_of(own.tensor),
                                  .dtype = own.tensor.dtype(),
                                  .persistent = own.persistent});
    for (const Module::Child& child : module.children) visit(*child.module, joined(child.name));
  }

  void add(const std::string& name, const Tensor& tensor) {
    model_.registered_names.push_back(name);
    const auto [found, is_new] = parameters_.emplace(tensor.impl(), name);
    if (!is_new) {
      model_.tied.push_back({.later = name, .first = found->second});
      return;
    }
    model_.parameters.push_back({.name = name,
                                 .shape = shape_of(tensor),
                                 .dtype = tensor.dtype(),
                                 .trainable = tensor.requires_grad(),
                                 .initialization = {}});
  }

  shardscope::Model model_;
  std::map<const Module*, std::string> names_;
  std::map<const TensorImpl*, std::string> parameters_;
};

}  // namespace

shardscope::Model described(Module& root, shardscope::Model base) {
  return Description(std::move(base)).of(root);
}

}  // namespace shardscope::eager
