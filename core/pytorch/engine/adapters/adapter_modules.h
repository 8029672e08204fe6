// Modules that adapters' layers are put together from.
#pragma once

#include <memory>
#include <string>

#include "core/pytorch/engine/module.h"

namespace shardscope::eager {

/// Without a forward of its own.
std::shared_ptr<Module> container(std::string class_name);
/// ModuleDict with `entry` under "default", or with nothing.
std::shared_ptr<Module> dict_of(std::shared_ptr<Module> entry);
/// Dropout in training; Identity where `probability` is 0.
std::shared_ptr<Module> dropout_of(double probability);

}  // namespace shardscope::eager
