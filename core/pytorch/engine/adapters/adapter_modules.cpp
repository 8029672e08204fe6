#include "core/pytorch/engine/adapters/adapter_modules.h"

#include <utility>

#include "core/pytorch/engine/aten/random.h"

namespace shardscope::eager {

std::shared_ptr<Module> container(std::string class_name) {
  auto module = std::make_shared<Module>();
  module->class_name = std::move(class_name);
  return module;
}

std::shared_ptr<Module> dict_of(std::shared_ptr<Module> entry) {
  auto dict = container("ModuleDict");
  if (entry) dict->children.push_back({"default", std::move(entry)});
  return dict;
}

std::shared_ptr<Module> dropout_of(double probability) {
  auto module = container(probability > 0 ? "Dropout" : "Identity");
  module->forward = [probability](Session& s, Module& me, const Arguments& arguments) -> Tensors {
    return {dropout(s, arguments[0], probability, me.training)};
  };
  return module;
}

}  // namespace shardscope::eager
