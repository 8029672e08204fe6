#include "core/pytorch/runtimes/fsdp1/module_places.h"

namespace shardscope::eager::fsdp1 {
namespace {

std::string joined(const std::string& name, const std::string& own) {
  return name.empty() ? own : name + "." + own;
}

}  // namespace

void ModulePlaces::add(Module& module, const std::string& name) {
  for (std::size_t i = 0; i < module.parameters.size(); ++i)
    if (module.parameters[i].tensor)
      parameters.emplace(joined(name, module.parameters[i].name), ParameterPlace{&module, i});
  for (Module::Child& child : module.children) {
    const bool is_wrapped = child.module->name == module.name;
    const std::string full = is_wrapped ? name : joined(name, child.name);
    if (!is_wrapped) modules.emplace(full, &child.module);
    add(*child.module, full);
  }
}

}  // namespace shardscope::eager::fsdp1
