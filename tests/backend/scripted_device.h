// A device that runs what the test gives it instead of kernels.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "backend/device/device.h"

namespace shardscope::test {

class ScriptedDevice : public Device {
 public:
  using Script = std::function<void(const Kernel&, const KernelCall&)>;
  explicit ScriptedDevice(Script script) : script_(std::move(script)) {}

  std::string description() const override { return "scripted"; }
  Bytes workspace(const Kernel&) const override { return {}; }
  void prepare(const Kernel&) override { ++prepared; }
  void run(const Kernel& kernel, const KernelCall& call) override { script_(kernel, call); }

  int prepared = 0;

 private:
  Script script_;
};

}  // namespace shardscope::test
