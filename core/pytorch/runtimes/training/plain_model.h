// The model alone, on one device.
#pragma once

#include <memory>
#include <utility>

#include "core/pytorch/runtimes/training/parallel_model.h"

namespace shardscope::eager {

class PlainModel final : public ParallelModel {
 public:
  explicit PlainModel(std::shared_ptr<Module> module) : module_(std::move(module)) {}

  Module& module() override { return *module_; }

 private:
  std::shared_ptr<Module> module_;
};

}  // namespace shardscope::eager
