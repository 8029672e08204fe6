// The functions of the CUDA runtime that backend/cuda calls, for the stand-in device. They take the
// place of libcudart_static.a's, none of which is linked then: a call that is missing here would
// bring that library in, and the linker would find everything twice.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/backend/cuda/stand_in_device.h"

namespace {

using shardscope::test::QueuedWork;
using shardscope::test::StandInDevice;

StandInDevice& device() { return StandInDevice::get(); }

/// Handles are numbers from 1.
template <class Handle>
Handle handle_of(int number) {
  return reinterpret_cast<Handle>(static_cast<std::intptr_t>(number + 1));
}
template <class Handle>
int number_of(Handle handle) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(handle)) - 1;
}

using Graph = std::shared_ptr<StandInDevice::Graph>;

constexpr std::size_t memory_bytes = std::size_t{80} << 30;

struct LaunchConfiguration {
  dim3 grid, block;
  std::size_t shared_bytes;
  void* stream;
};
LaunchConfiguration& configuration() {
  static LaunchConfiguration instance;
  return instance;
}

/// What cudaMemcpyAsync does when its turn comes.
std::function<void()> copy_work(void* to, const void* from, std::size_t bytes,
                                cudaMemcpyKind kind) {
  if (kind != cudaMemcpyHostToDevice) return [=] { std::memmove(to, from, bytes); };
  // From pageable memory: read before the call returns.
  const auto* begin = static_cast<const std::byte*>(from);
  return [to, staged = std::vector<std::byte>(begin, begin + bytes)] {
    std::memcpy(to, staged.data(), staged.size());
  };
}

}  // namespace

extern "C" {

// What nvcc's objects call.
// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming)
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  device().add_function(host_function, name);
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes,
                                     struct CUstream_st* stream) {
  configuration() = {grid, block, shared_bytes, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes,
                                       void* stream) {
  *grid = configuration().grid;
  *block = configuration().block;
  *shared_bytes = configuration().shared_bytes;
  *static_cast<void**>(stream) = configuration().stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host_function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared_bytes, cudaStream_t stream) {
  device().launch(kernel, arguments,
                  {.blocks = grid.x,
                   .threads = static_cast<int>(block.x),
                   .shared_bytes = static_cast<std::int64_t>(shared_bytes)},
                  number_of(stream));
  return cudaSuccess;
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)

// The device.
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDevice(int* index) {
  *index = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceReset() {
  device().note("cudaDeviceReset");
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "stand-in");
  properties->major = 9;
  properties->totalGlobalMem = memory_bytes;
  properties->multiProcessorCount = 132;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int, int) {
  *text = '\0';
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOfTheStandIn"; }
const char* cudaGetErrorString(cudaError_t) { return "the stand-in refuses"; }

// Memory.
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  device().note("cudaMalloc", -1, std::to_string(bytes));
  if (bytes > memory_bytes) return cudaErrorMemoryAllocation;
  *memory = device().allocate(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  device().note("cudaFree");
  device().free(memory);
  return cudaSuccess;
}
// Memory of the host is not fenced.
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  device().note("cudaHostAlloc", -1, std::to_string(bytes));
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  device().note("cudaLaunchHostFunc", number_of(stream));
  device().queue({.kind = QueuedWork::Kind::unnamed, .name = {}, .stream = number_of(stream)},
                 [=] { function(data); });
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = memory_bytes;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  device().note("cudaMemcpyAsync", number_of(stream), std::to_string(bytes));
  if (!device().may_copy()) return cudaErrorStreamCaptureUnsupported;
  device().queue({.kind = QueuedWork::Kind::copy,
                  .name = {},
                  .stream = number_of(stream),
                  .bytes = bytes,
                  .copy_kind = kind},
                 copy_work(to, from, bytes, kind));
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  device().note("cudaMemsetAsync", number_of(stream), std::to_string(bytes));
  device().queue(
      {.kind = QueuedWork::Kind::set, .name = {}, .stream = number_of(stream), .bytes = bytes},
      [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

// Kernels.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  device().note("cudaFuncGetAttributes");
  attributes->maxDynamicSharedSizeBytes = device().load(function);
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int value) {
  device().note("cudaFuncSetAttribute");
  device().allow_shared_memory(function, value);
  return cudaSuccess;
}

// Streams and events.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  device().note("cudaStreamCreateWithFlags");
  *stream = handle_of<cudaStream_t>(device().make_stream());
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  device().end_stream(number_of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  device().note("cudaStreamSynchronize", number_of(stream));
  device().synchronize(number_of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  device().note("cudaStreamWaitEvent", number_of(stream), std::to_string(number_of(event)));
  device().wait(number_of(event), number_of(stream));
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  device().note("cudaEventCreateWithFlags");
  *event = handle_of<cudaEvent_t>(device().make_event());
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  device().note("cudaEventRecord", number_of(stream), std::to_string(number_of(event)));
  device().record(number_of(event), number_of(stream));
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return device().has_come(number_of(event)) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = static_cast<float>(number_of(to) - number_of(from)) * 1e-3f;
  return cudaSuccess;
}

// Graphs.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  device().note("cudaStreamBeginCapture", number_of(stream));
  device().begin_capture(number_of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  device().note("cudaStreamEndCapture", number_of(stream));
  Graph captured = device().end_capture();
  if (!captured) return cudaErrorStreamCaptureUnsupported;
  *graph = reinterpret_cast<cudaGraph_t>(new Graph(std::move(captured)));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
  device().instantiated();
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  device().note("cudaGraphLaunch", number_of(stream));
  device().launch(*reinterpret_cast<Graph*>(executable), number_of(stream));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Graph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete reinterpret_cast<Graph*>(executable);
  return cudaSuccess;
}

}  // extern "C"
