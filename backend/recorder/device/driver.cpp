// The CUDA driver, which Triton, torch's allocator and libraries ask by name, and the management
// library (NVML).
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "backend/recorder/device/cuda_abi.h"
#include "backend/recorder/device/device_properties.h"
#include "backend/recorder/device/device_state.h"
#include "backend/recorder/device/launch.h"
#include "backend/recorder/device/log.h"
#include "backend/recorder/device/unwritten.h"
#include "backend/recorder/device/virtual_time.h"

namespace shardscope::recorder {

namespace {

constexpr std::size_t granularity = std::size_t{2} << 20;

/// The functions of this library, whichever name it was opened by.
void* own_library() {
  static void* const handle = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&own_library), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return handle;
}

/// The newest version that was written, else the newest there is.
void* find(const char* name) {
  constexpr std::array suffixes{"_v4", "_v3", "_v2", ""};
  void* any = nullptr;
  for (const char* suffix : suffixes) {
    const std::string versioned = std::string(name) + suffix;
    void* function = dlsym(own_library(), versioned.c_str());
    if (function == nullptr) continue;
    if (!is_generated(function)) return function;
    if (any == nullptr) any = function;
  }
  if (any == nullptr) unknown_call(name);
  return any;
}

void* context_of(int device) {
  return reinterpret_cast<void*>(0xC000 + 16 * static_cast<std::uintptr_t>(device));
}

/// A function of a module that was loaded at run time: Triton's, or nvrtc's.
const char* loaded_function(const char* name) { return (new std::string(name))->c_str(); }

struct Chunk {
  std::size_t bytes;
  int number;
};

void set_name(char* to, int length, const char* text) {
  std::snprintf(to, static_cast<std::size_t>(length), "%s", text);
}

int function_attribute(int attribute) {
  switch (attribute) {
    case 0:
      return 1024;  // threads a block
    case 4:
      return 64;  // registers
    case 5:
    case 6:
      return device_properties().major * 10 + device_properties().minor;
    default:
      return 0;
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
Status cudaMalloc(void** to, std::size_t bytes);
Status cudaFree(void* address);
Status cudaHostAlloc(void** to, std::size_t bytes, unsigned flags);
Status cudaFreeHost(void* address);
Status cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total);
Status cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, void* stream);
Status cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* to, const void* f, int block,
                                                     std::size_t shared_bytes);

// Entry points
Status cudaGetDriverEntryPointByVersion(const char* name, void** to, unsigned, unsigned long long,
                                        int* result) {
  *to = find(name);
  if (result != nullptr) *result = *to != nullptr ? 0 : 1;
  return success;
}
Status cudaGetDriverEntryPoint(const char* name, void** to, unsigned long long flags, int* result) {
  return cudaGetDriverEntryPointByVersion(name, to, 0, flags, result);
}
Status cuGetProcAddress_v2(const char* name, void** to, int, std::uint64_t, int* result) {
  *to = find(name);
  if (result != nullptr) *result = *to != nullptr ? 0 : 1;
  return *to != nullptr ? success : not_found;
}
Status cuGetProcAddress(const char* name, void** to, int wanted, std::uint64_t flags) {
  return cuGetProcAddress_v2(name, to, wanted, flags, nullptr);
}
Status cuGetExportTable(const void** to, const void*) {
  unknown_call("cuGetExportTable");
  *to = nullptr;
  return not_found;
}

// Devices and contexts
Status cuInit(unsigned) { return success; }
Status cuDriverGetVersion(int* to) {
  *to = cuda_version;
  return success;
}
Status cuDeviceGetCount(int* count) {
  *count = device_count();
  return success;
}
Status cuDeviceGet(int* to, int device) {
  if (device < 0 || device >= device_count()) return invalid_device;
  *to = device;
  return success;
}
Status cuDeviceGetName(char* to, int length, int) {
  set_name(to, length, device_properties().name.c_str());
  return success;
}
Status cuDeviceTotalMem_v2(std::size_t* to, int) {
  *to = total_memory();
  return success;
}
Status cuDeviceGetUuid_v2(char* to, int device) {
  std::memset(to, 0, 16);
  to[15] = static_cast<char>(device + 1);
  return success;
}
Status cuDeviceGetUuid(char* to, int device) { return cuDeviceGetUuid_v2(to, device); }
Status cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  if (flags != nullptr) *flags = 0;
  if (active != nullptr) *active = 1;
  return success;
}
Status cuDevicePrimaryCtxRetain(void** to, int device) {
  *to = context_of(device);
  return success;
}
Status cuDevicePrimaryCtxRelease_v2(int) { return success; }
Status cuCtxGetCurrent(void** to) {
  *to = context_of(current_device());
  return success;
}
Status cuCtxSetCurrent(void* context) {
  if (context != nullptr)
    set_current_device(static_cast<int>((reinterpret_cast<std::uintptr_t>(context) - 0xC000) / 16));
  return success;
}
Status cuCtxPushCurrent_v2(void*) { return success; }
Status cuCtxPopCurrent_v2(void** to) { return cuCtxGetCurrent(to); }
Status cuCtxGetDevice(int* to) {
  *to = current_device();
  return success;
}
Status cuCtxSynchronize() {
  synchronize_all();
  return success;
}
Status cuCtxGetLimit(std::size_t* to, int) {
  *to = 1024;
  return success;
}
Status cuCtxGetApiVersion(void*, unsigned* to) {
  *to = cuda_version;
  return success;
}
Status cuGetErrorString(Status status, const char** to) {
  *to = status == success ? "no error" : status == memory_allocation ? "out of memory" : "error";
  return success;
}
// A device that is not there has no messages for the callback.
Status cuLogsRegisterCallback(void*, void*, void** handle) {
  static long registration;
  if (handle != nullptr) *handle = &registration;
  return success;
}
Status cuLogsUnregisterCallback(void*) { return success; }
Status cuGetErrorName(Status status, const char** to) {
  *to = status == success             ? "CUDA_SUCCESS"
        : status == memory_allocation ? "CUDA_ERROR_OUT_OF_MEMORY"
                                      : "CUDA_ERROR_UNKNOWN";
  return success;
}

// Memory
Status cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total) {
  return cudaMemGetInfo(free_bytes, total);
}
Status cuMemAlloc_v2(void** to, std::size_t bytes) { return cudaMalloc(to, bytes); }
Status cuMemFree_v2(void* address) { return cudaFree(address); }
Status cuMemHostAlloc(void** to, std::size_t bytes, unsigned flags) {
  return cudaHostAlloc(to, bytes, flags);
}
Status cuMemFreeHost(void* address) { return cudaFreeHost(address); }
Status cuMemGetAllocationGranularity(std::size_t* to, const void*, int) {
  *to = granularity;
  return success;
}
Status cuMulticastGetGranularity(std::size_t* to, const void*, int) {
  *to = granularity;
  return success;
}
Status cuMemAddressReserve(void** to, std::size_t bytes, std::size_t, void*, unsigned long long) {
  begin_to_observe();
  *to = reserve_addresses(bytes);
  return *to == nullptr ? memory_allocation : success;
}
Status cuMemAddressFree(void* address, std::size_t) {
  free_memory(address);
  return success;
}
Status cuMemCreate(void** to, std::size_t bytes, const void*, unsigned long long) {
  if (!take_memory(bytes)) {
    log_line("malloc\t-1\t%zu\t0", bytes);
    return memory_allocation;
  }
  static std::atomic<int> chunks = 0;
  auto* chunk = new Chunk{bytes, ++chunks};
  *to = chunk;
  log_line("malloc\t%d\t%zu\t1", chunk->number, bytes);
  return success;
}
Status cuMemRelease(void* handle) {
  auto* chunk = static_cast<Chunk*>(handle);
  log_line("mfree\t%d", chunk->number);
  give_memory(chunk->bytes);
  delete chunk;
  return success;
}
Status cuMemMap(void*, std::size_t, std::size_t, void*, unsigned long long) { return success; }
Status cuMemUnmap(void*, std::size_t) { return success; }
Status cuMemSetAccess(void*, std::size_t, const void*, std::size_t) { return success; }
Status cuMemGetAddressRange_v2(void** base, std::size_t* bytes, void* address) {
  void* begin = nullptr;
  std::size_t length = 0;
  if (!is_on_device(address, &begin, &length)) return invalid_value;
  if (base != nullptr) *base = begin;
  if (bytes != nullptr) *bytes = length;
  return success;
}
Status cuPointerGetAttribute(void* to, int attribute, void* address) {
  constexpr int context = 1, memory_type = 2, device_pointer = 3, host_pointer = 4, ordinal = 9;
  const bool on_device = is_on_device(address);
  if (!on_device && !is_pinned(address)) return invalid_value;
  const unsigned type = on_device ? 2 : 1;
  void* const current = context_of(current_device());
  const int device = current_device();
  switch (attribute) {
    case context:
      std::memcpy(to, &current, sizeof current);
      return success;
    case memory_type:
      std::memcpy(to, &type, sizeof type);
      return success;
    case device_pointer:
    case host_pointer:
      std::memcpy(to, &address, sizeof address);
      return success;
    case ordinal:
      std::memcpy(to, &device, sizeof device);
      return success;
    default:
      std::memset(to, 0, 4);
      return success;
  }
}
Status cuMemcpyHtoDAsync_v2(void* to, const void* from, std::size_t bytes, void* stream) {
  return cudaMemcpyAsync(to, from, bytes, 4, stream);
}
Status cuMemcpyDtoHAsync_v2(void* to, void* from, std::size_t bytes, void* stream) {
  return cudaMemcpyAsync(to, from, bytes, 4, stream);
}
Status cuMemcpyDtoDAsync_v2(void* to, void* from, std::size_t bytes, void* stream) {
  return cudaMemcpyAsync(to, from, bytes, 4, stream);
}
Status cuMemcpyAsync(void* to, void* from, std::size_t bytes, void* stream) {
  return cudaMemcpyAsync(to, from, bytes, 4, stream);
}
Status cuMemsetD32Async(void*, unsigned, std::size_t count, void* stream) {
  issue("set", stream_of(stream), "%zu", count * 4);
  spend(stream_of(stream), "set\t" + std::to_string(count * 4));
  return success;
}
Status cuMemsetD8Async(void*, unsigned char, std::size_t count, void* stream) {
  issue("set", stream_of(stream), "%zu", count);
  spend(stream_of(stream), "set\t" + std::to_string(count));
  return success;
}

// Modules and kernels
Status cuModuleLoadData(void** to, const void*) {
  static std::uintptr_t modules = 0xA0000;
  *to = reinterpret_cast<void*>(modules += 16);
  return success;
}
Status cuModuleLoadDataEx(void** to, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(to, image);
}
Status cuModuleLoad(void** to, const char*) { return cuModuleLoadData(to, nullptr); }
Status cuModuleUnload(void*) { return success; }
Status cuModuleGetFunction(void** to, void*, const char* name) {
  *to = const_cast<char*>(loaded_function(name));
  return success;
}
Status cuModuleGetGlobal_v2(void** to, std::size_t* bytes, void*, const char*) {
  constexpr std::size_t room = 65536;
  *to = reserve_addresses(room);
  if (bytes != nullptr) *bytes = room;
  return success;
}
Status cuLibraryLoadData(void** to, const void* code, int*, void**, unsigned, int*, void**,
                         unsigned) {
  return cuModuleLoadData(to, code);
}
Status cuLibraryUnload(void*) { return success; }
Status cuLibraryGetKernel(void** to, void* library, const char* name) {
  return cuModuleGetFunction(to, library, name);
}
Status cuLibraryGetModule(void** to, void* library) {
  *to = library;
  return success;
}
Status cuKernelGetFunction(void** to, void* kernel) {
  *to = kernel;
  return success;
}
Status cuFuncGetAttribute(int* to, int attribute, void*) {
  *to = function_attribute(attribute);
  return success;
}
Status cuKernelGetAttribute(int* to, int attribute, void*, int) {
  *to = function_attribute(attribute);
  return success;
}
Status cuFuncSetAttribute(void*, int, int) { return success; }
Status cuFuncSetCacheConfig(void*, int) { return success; }
Status cuFuncGetName(const char** to, void* function) {
  *to = static_cast<const char*>(function);
  return success;
}
Status cuOccupancyMaxActiveBlocksPerMultiprocessor(int* to, void* function, int block,
                                                   std::size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(to, function, block, shared_bytes);
}
Status cuOccupancyMaxActiveClusters(int* to, void*, const void*) {
  *to = 66;
  return success;
}
Status cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      void* stream, void**, void**) {
  launch(static_cast<const char*>(function), {grid_x, grid_y, grid_z}, {block_x, block_y, block_z},
         shared_bytes, stream);
  return success;
}
Status cuLaunchCooperativeKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z,
                                 unsigned shared_bytes, void* stream, void** parameters) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                        stream, parameters, nullptr);
}
Status cuLaunchKernelEx(const DriverLaunchConfig* config, void* function, void** parameters,
                        void** extra) {
  return cuLaunchKernel(function, config->grid_x, config->grid_y, config->grid_z, config->block_x,
                        config->block_y, config->block_z, config->shared_bytes, config->stream,
                        parameters, extra);
}
Status cuStreamCreate(void** to, unsigned flags) {
  *to = make_stream(flags, 0);
  return success;
}
Status cuStreamIsCapturing(void* stream, int* status) {
  *status = stream_of(stream)->capture != nullptr ? 1 : 0;
  return success;
}
Status cuStreamGetCtx(void*, void** to) { return cuCtxGetCurrent(to); }
Status cuStreamSynchronize(void* stream) {
  synchronize(stream_of(stream));
  return success;
}
Status cuStreamWaitEvent(void* stream, void* event, unsigned) {
  wait(stream_of(stream), static_cast<Event*>(event));
  return success;
}
Status cuEventCreate(void** to, unsigned) {
  *to = make_event();
  return success;
}
Status cuEventRecord(void* event, void* stream) {
  record(static_cast<Event*>(event), stream_of(stream));
  return success;
}
Status cuEventSynchronize(void* event) {
  synchronize(static_cast<Event*>(event));
  return success;
}
Status cuStreamWriteValue32_v2(void* stream, void* at, std::uint32_t value, unsigned) {
  issue("set", stream_of(stream), "%d", 4);
  std::memcpy(at, &value, sizeof value);
  return success;
}
Status cuTensorMapEncodeTiled(void* to, ...) {
  constexpr std::size_t descriptor = 128;
  std::memset(to, 0, descriptor);
  return success;
}

// NVML: what torch asks at start; the rest is not supported
int nvmlInit_v2() { return 0; }
int nvmlInitWithFlags(unsigned) { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(device_count());
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** to) {
  *to = reinterpret_cast<void*>(0xD000 + static_cast<std::uintptr_t>(index));
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** to) {
  return nvmlDeviceGetHandleByIndex_v2(0, to);
}
int nvmlDeviceGetName(void*, char* to, unsigned length) {
  set_name(to, static_cast<int>(length), device_properties().name.c_str());
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  *count = 0;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, void* to) {
  return nvmlDeviceGetComputeRunningProcesses(device, count, to);
}
int nvmlSystemGetDriverVersion(char* to, unsigned length) {
  set_name(to, static_cast<int>(length), "580.00");
  return 0;
}

// CUPTI: torch's profiler starts, and is told of no kernel
int cuptiSubscribe(void** to, void*, void*) {
  static int one;
  *to = &one;
  return 0;
}
int cuptiGetTimestamp(std::uint64_t* to) {
  *to = 0;
  return 0;
}
int cuptiActivityGetNextRecord(void*, std::size_t, void**) {
  constexpr int max_limit_reached = 12;
  return max_limit_reached;
}
int cuptiActivityGetNumDroppedRecords(void*, std::uint32_t, std::size_t* to) {
  *to = 0;
  return 0;
}
int cuptiGetResultString(int, const char** to) {
  *to = "";
  return 0;
}
int cuptiGetVersion(std::uint32_t* to) {
  *to = cuda_version / 10;
  return 0;
}
}
#pragma GCC visibility pop

}  // namespace shardscope::recorder
