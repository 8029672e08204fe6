#include "tests/recordings/ops_device.h"

#include <fmt/format.h>

#include <memory>

#include "backend/cpu/cpu_device.h"
#include "backend/cuda/cuda_device.h"
#include "core/base/error.h"
#include "tests/backend/cuda/device_copies.h"
#include "tests/backend/cuda/emulated_device.h"

namespace shardscope::recordings {
namespace {

std::unique_ptr<Device> make_device(const std::string& name) {
  if (name == "cpu") return make_cpu_device({});
  if (name == "emulated") return test::make_emulated_cuda_device();
  if (name == "cuda") return make_cuda_device();
  throw Error({.where = "--device",
               .what = fmt::format("\"{}\" is none of cpu, cuda, emulated", name),
               .way_out = {}});
}

struct Chosen {
  std::string name = "cpu";
  std::unique_ptr<Device> device = make_device("cpu");
};
Chosen& chosen() {
  static Chosen device;
  return device;
}

}  // namespace

void use_device(const std::string& name) { chosen() = {name, make_device(name)}; }

void end_device() { chosen().device.reset(); }

Device& device_in_use() { return *chosen().device; }

bool uses_other_device() { return chosen().name != "cpu"; }

void run_kernel(const Kernel& kernel, std::initializer_list<Operand> operands,
                const std::vector<Slice>& slices, StepState state) {
  Device& device = device_in_use();
  device.prepare(kernel);
  std::vector<double> workspace(static_cast<std::size_t>(device.workspace(kernel).count) / 8 + 1);
  test::DeviceCopies copies(device.memory());
  std::vector<void*> pointers;
  const auto place = [&](std::span<std::byte> bytes) -> void* {
    return bytes.empty() ? nullptr : copies.copy(bytes);
  };
  for (const Operand& operand : operands) pointers.push_back(place(operand.bytes()));
  pointers.push_back(place(std::as_writable_bytes(std::span(workspace))));
  device.run(kernel, {.operands = pointers, .slices = slices, .state = state});
  copies.copy_back();
}

}  // namespace shardscope::recordings
