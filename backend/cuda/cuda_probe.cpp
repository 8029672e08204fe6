#include "backend/cuda/cuda_probe.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <memory>

#include "backend/cuda/check.h"
#include "backend/cuda/cuda_device.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

using cuda::check;

/// The functions of NVML that are asked; source of their types: NVML API Reference Guide 580.
struct Nvml {
  using Handle = struct nvmlDevice_st*;
  static constexpr unsigned graphics_clock = 0, memory_clock = 2;

  int (*init)();
  int (*shutdown)();
  int (*handle_by_bus)(const char*, Handle*);
  int (*clock)(Handle, unsigned, unsigned*);
  int (*most_clock)(Handle, unsigned, unsigned*);
  int (*power)(Handle, unsigned*);
  int (*power_limit)(Handle, unsigned*);
  int (*performance_state)(Handle, unsigned*);
};

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};

template <class Function>
bool load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool load_all(void* library, Nvml& nvml) {
  return load(library, "nvmlInit_v2", nvml.init) && load(library, "nvmlShutdown", nvml.shutdown) &&
         load(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.handle_by_bus) &&
         load(library, "nvmlDeviceGetClockInfo", nvml.clock) &&
         load(library, "nvmlDeviceGetMaxClockInfo", nvml.most_clock) &&
         load(library, "nvmlDeviceGetPowerUsage", nvml.power) &&
         load(library, "nvmlDeviceGetEnforcedPowerLimit", nvml.power_limit) &&
         load(library, "nvmlDeviceGetPerformanceState", nvml.performance_state);
}

/// Figures that the driver does not give stay 0.
std::string clocks_text(const Nvml& nvml, Nvml::Handle device) {
  unsigned clock = 0, most = 0, memory = 0, milliwatts = 0, limit = 0, state = 0;
  nvml.clock(device, Nvml::graphics_clock, &clock);
  nvml.most_clock(device, Nvml::graphics_clock, &most);
  nvml.clock(device, Nvml::memory_clock, &memory);
  nvml.power(device, &milliwatts);
  nvml.power_limit(device, &limit);
  nvml.performance_state(device, &state);
  return fmt::format("{} of {} MHz, memory {} MHz, {} of {} W, P{}", clock, most, memory,
                     milliwatts / 1000, limit / 1000, state);
}

}  // namespace

CudaMemory probe_cuda_memory(int index) {
  const std::string why_not = why_no_cuda_device();
  if (!why_not.empty())
    throw Error({.where = "--device cuda",
                 .what = why_not,
                 .way_out = "take --device cpu, or a machine with a GPU and its driver",
                 .code = ExitCode::outside});
  check(cudaSetDevice(index), "cudaSetDevice");
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  check(cudaDeviceReset(), "cudaDeviceReset");
  return {.free = Bytes{static_cast<std::int64_t>(free)},
          .total = Bytes{static_cast<std::int64_t>(total)}};
}

std::string cuda_bus_place(int index) {
  char place[32] = "";
  if (cudaDeviceGetPCIBusId(place, sizeof place, index) == cudaSuccess) return place;
  cudaGetLastError();  // which later calls would answer again
  return "";
}

std::string cuda_clocks(int index) {
  const std::string place = cuda_bus_place(index);
  if (place.empty()) return "";
  const std::unique_ptr<void, CloseLibrary> library(
      dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL));
  Nvml nvml{};
  if (!library || !load_all(library.get(), nvml) || nvml.init() != 0) return "";
  Nvml::Handle device = nullptr;
  std::string text =
      nvml.handle_by_bus(place.c_str(), &device) == 0 ? clocks_text(nvml, device) : "";
  nvml.shutdown();
  return text;
}

}  // namespace shardscope
