#include "backend/cuda/cuda_device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>

#include "backend/cpu/cpu_device.h"
#include "backend/cuda/check.h"
#include "backend/cuda/cublaslt_matmul.h"
#include "backend/cuda/cuda_streams.h"
#include "backend/cuda/cuda_target.h"
#include "backend/cuda/cuda_workspace.h"
#include "backend/cuda/cudnn_attention.h"
#include "backend/cuda/event_timeline.h"
#include "backend/cuda/launch_kernels.h"
#include "backend/cuda/stream_memory.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

using cuda::check;

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

bool same(const StepState& a, const StepState& b) {
  return a.learning_rate == b.learning_rate && a.step == b.step;
}

/// The state of the step, where kernels read it: beside the arena, as it is no part of a schedule.
class StepStateMemory {
 public:
  explicit StepStateMemory(cuda::StreamMemory& memory)
      : memory_(memory.allocate({sizeof(StepState)})) {
    cuda::load_set_step_state();
  }
  StepState* data() const { return reinterpret_cast<StepState*>(memory_->data()); }
  /// Queues nothing where it is there already, so that a captured step does not hold its state.
  void set(const StepState& state, cudaStream_t stream) {
    if (set_ && same(*set_, state)) return;
    cuda::set_step_state(state, data(), stream);
    set_ = state;
  }

 private:
  std::unique_ptr<Arena> memory_;
  std::optional<StepState> set_;
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(const CudaOptions& options)
      : streams_(options.index),
        memory_(streams_),
        step_state_(memory_),
        attention_(options.attention),
        host_(make_cpu_device({.threads = options.host_threads, .use_onednn = false})) {
    check(cudaGetDeviceProperties(&properties_, options.index), "cudaGetDeviceProperties");
    if (options.use_cublaslt) matmul_.emplace();
    if (attention_ == CudaAttention::cudnn) cudnn_.emplace(options.index);
    if (attention_ == CudaAttention::automatic) take_cudnn_if_there(options.index);
  }

  std::string description() const override {
    int runtime = 0;
    check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    return fmt::format("{}, sm_{}{}, CUDA {}, {}, {}", properties_.name, properties_.major,
                       properties_.minor, version_text(runtime),
                       matmul_ ? "cuBLASLt" : "plain matrix products", attention_text());
  }

  Bytes workspace(const Kernel& kernel) const override {
    return cuda_workspace(kernel, matmul_.has_value(), attention_);
  }

  Target target() const override { return cuda_target(matmul_.has_value(), attention_); }

  void prepare(const Kernel& kernel) override {
    if (by_library(kernel)) matmul_->prepare(kernel);
    if (by_cudnn(kernel) && !cudnn_->prepare(kernel) && attention_ == CudaAttention::cudnn)
      throw no_plan(kernel.kind(), *attention_of(kernel));
    cuda::load_kernel(kernel);
    if (const auto gelu = gelu_of(kernel); gelu && by_library(kernel))
      cuda::load_kernel(gelu->kernel);
  }

  void begin_step(const StepState& state) override {
    step_state_.set(state, streams_.selected());
    host_state_ = state;
  }

  void run(const Kernel& kernel, const KernelCall& call) override {
    begin_step(call.state);
    if (by_cudnn(kernel) && cudnn_->has(kernel))
      return cudnn_->run(kernel, call, streams_.selected());
    if (!by_library(kernel)) return launch(kernel, call);
    const bool joined = matmul_->is_joined(kernel);
    const auto* gradients = kernel.get_if<LinearBackwardWeightKernel>();
    if (gradients && gradients->has_bias && !joined) run_bias_gradient(kernel, call);
    matmul_->run(kernel, call, streams_.selected());
    if (joined) return;
    if (const auto gelu = gelu_of(kernel)) run_gelu(*gelu, call);
  }

  /// A node of the stream, which a graph keeps as well; the step's state is read when it runs.
  void run_on_host(const Kernel& kernel, const KernelCall& call) override {
    begin_step(call.state);
    HostCall& kept = host_calls_[call.operands.data()];
    kept = {.kernel = &kernel, .call = call, .device = this};
    check(cudaLaunchHostFunc(streams_.selected(), run_host_call, &kept), "cudaLaunchHostFunc");
  }

  DeviceMemory& memory() override { return memory_; }
  DeviceStreams& streams() override { return streams_; }

  std::unique_ptr<DeviceTimeline> timeline(std::size_t places) override {
    return cuda::make_event_timeline(places, streams_);
  }

 private:
  /// By the address of its operands, which stay where they are.
  struct HostCall {
    const Kernel* kernel = nullptr;
    KernelCall call;
    CudaDevice* device = nullptr;
  };
  static void CUDART_CB run_host_call(void* data) {
    const HostCall& host = *static_cast<HostCall*>(data);
    CudaDevice& device = *host.device;
    device.host_->run(
        *host.kernel,
        {.operands = host.call.operands, .slices = host.call.slices, .state = device.host_state_});
  }

  bool by_library(const Kernel& kernel) const {
    const auto* gradients = kernel.get_if<LinearBackwardWeightKernel>();
    return matmul_ && is_linear(kernel.kind()) && (!gradients || gradients->has_weight_gradient);
  }

  /// The gelu behind a product that the library did not join to it, with its operands in the
  /// product's call.
  struct Gelu {
    Kernel kernel;
    std::size_t h = 0;
    std::size_t result = 0;  ///< y, or dy that becomes dh
  };
  static std::optional<Gelu> gelu_of(const Kernel& kernel) {
    if (const auto* k = kernel.get_if<LinearForwardKernel>(); k && k->has_gelu)
      return Gelu{.kernel = GeluForwardKernel{{k->dtype, k->rows, k->out}}, .h = 5, .result = 4};
    if (const auto* k = kernel.get_if<LinearBackwardInputKernel>(); k && k->has_gelu)
      return Gelu{.kernel = GeluBackwardKernel{{k->dtype, k->rows, k->in}}, .h = 3, .result = 2};
    return std::nullopt;
  }

  void run_gelu(const Gelu& gelu, const KernelCall& call) {
    const std::array<void*, 3> operands{call.operands[gelu.h], call.operands[gelu.result], nullptr};
    launch(gelu.kernel, {.operands = operands, .slices = {}, .state = call.state});
  }

  bool by_cudnn(const Kernel& kernel) const { return cudnn_ && wants_cudnn(kernel, attention_); }

  /// Where it is not, our own kernels do as well, and the description says so.
  void take_cudnn_if_there(int index) {
    try {
      cudnn_.emplace(index);
    } catch (const Error& error) {
      why_no_cudnn_ = error.what();
    }
  }

  std::string attention_text() const {
    if (cudnn_)
      return attention_ == CudaAttention::cudnn ? "cuDNN attention" : "cuDNN attention forward";
    if (attention_ == CudaAttention::own) return "own attention";
    return fmt::format("own attention ({})", why_no_cudnn_);
  }

  static Error no_plan(KernelKind kind, const AttentionKernel& kernel) {
    return Error({.where = std::string(name_of(kind)),
                  .what = fmt::format("cuDNN has no plan for {} heads of {} elements at length {}",
                                      kernel.heads, kernel.head_dim, kernel.length),
                  .way_out = "leave attention to our own kernels",
                  .code = ExitCode::outside});
  }

  void run_bias_gradient(const Kernel& kernel, const KernelCall& call) {
    const std::array<void*, 5> operands{call.operands[0], call.operands[1], nullptr,
                                        call.operands[3], call.operands.back()};
    launch(kernel, {.operands = operands, .slices = {}, .state = call.state});
  }

  void launch(const Kernel& kernel, const KernelCall& call) {
    cuda::launch_kernel(kernel, call, step_state_.data(), streams_.selected());
  }

  cuda::CudaStreams streams_;
  cuda::StreamMemory memory_;
  StepStateMemory step_state_;
  cudaDeviceProp properties_{};
  std::optional<cuda::CublasLtMatmul> matmul_;
  CudaAttention attention_;
  std::optional<cuda::CudnnAttention> cudnn_;
  std::string why_no_cudnn_;
  std::unique_ptr<Device> host_;
  StepState host_state_;
  std::map<void* const*, HostCall> host_calls_;
};

}  // namespace

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();  // which later calls would answer again
  return 0;
}

std::string why_no_cuda_device() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaSuccess && count > 0) return "";
  cudaGetLastError();
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "no NVIDIA driver was found";
  if (result == cudaErrorInsufficientDriver) {
    return fmt::format("the NVIDIA driver knows CUDA {}, and this program wants {}",
                       version_text(driver), version_text(runtime));
  }
  if (result == cudaSuccess || result == cudaErrorNoDevice)
    return "the driver sees no NVIDIA GPU (is CUDA_VISIBLE_DEVICES empty?)";
  return cudaGetErrorString(result);
}

std::unique_ptr<Device> make_cuda_device(const CudaOptions& options) {
  const std::string why_not = why_no_cuda_device();
  if (!why_not.empty()) {
    throw Error({.where = "--device cuda",
                 .what = why_not,
                 .way_out = "take --device cpu, or a machine with a GPU and its driver",
                 .code = ExitCode::outside});
  }
  return std::make_unique<CudaDevice>(options);
}

}  // namespace shardscope
