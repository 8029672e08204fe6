// A device whose schedules are made for another target than its own.
#pragma once

#include "backend/device/device.h"

namespace shardscope::test {

/// Runs on `device`, which must outlive it.
class TargetedDevice final : public Device {
 public:
  TargetedDevice(Device& device, Fusions fusions, Bytes logits)
      : device_(device), fusions_(fusions), logits_(logits) {}

  Target target() const override {
    return {.workspace = device_.target().workspace, .fusions = fusions_, .logits = logits_};
  }
  DeviceMemory& memory() override { return device_.memory(); }
  std::string description() const override { return device_.description(); }
  Bytes workspace(const Kernel& kernel) const override { return device_.workspace(kernel); }
  void prepare(const Kernel& kernel) override { device_.prepare(kernel); }
  void run(const Kernel& kernel, const KernelCall& call) override { device_.run(kernel, call); }

 private:
  Device& device_;
  Fusions fusions_;
  Bytes logits_;
};

}  // namespace shardscope::test
