// Where the modules and parameters of a model hang, by full name.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/fsdp1/flat_handle.h"

namespace shardscope::eager::fsdp1 {

/// All names that modules and parameters have, tied ones and those of shared modules too. Wrappers
/// (checkpointing's), which are called as what they wrap, take no part in names.
struct ModulePlaces {
  /// By module name: the pointer that a wrapper has to replace; the root is not among them.
  std::map<std::string, std::shared_ptr<Module>*> modules;
  std::map<std::string, ParameterPlace> parameters;

  explicit ModulePlaces(Module& root) { add(root, ""); }

 private:
  void add(Module& module, const std::string& name);
};

}  // namespace shardscope::eager::fsdp1
