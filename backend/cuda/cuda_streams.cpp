#include "backend/cuda/cuda_streams.h"

#include <fmt/format.h>

#include "backend/cuda/check.h"

namespace shardscope::cuda {
namespace {

StreamHandle make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return StreamHandle(stream);
}

class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(ExecutableHandle executable, cudaStream_t stream)
      : executable_(std::move(executable)), stream_(stream) {}
  void launch() override { check(cudaGraphLaunch(executable_.get(), stream_), "cudaGraphLaunch"); }

 private:
  ExecutableHandle executable_;
  cudaStream_t stream_;
};

/// The reason, which later calls shall not answer again.
Capture refused(cudaError_t result, const char* call) {
  cudaGetLastError();
  return {.graph = nullptr, .why_not = fmt::format("{}: {}", call, cudaGetErrorString(result))};
}

}  // namespace

EventHandle make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return EventHandle(event);
}

CudaStreams::CudaStreams(int index) {
  check(cudaSetDevice(index), "cudaSetDevice");
  for (StreamHandle& stream : streams_) stream = make_stream();
}

void CudaStreams::make_events(std::size_t count) {
  while (events_.size() < count) events_.push_back(make_event());
}

void CudaStreams::record(std::size_t event) {
  check(cudaEventRecord(events_[event].get(), selected()), "cudaEventRecord");
}

void CudaStreams::wait_for(std::size_t event) {
  check(cudaStreamWaitEvent(selected(), events_[event].get(), 0), "cudaStreamWaitEvent");
}

void CudaStreams::begin_capture() {
  check(cudaStreamBeginCapture(compute(), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  capturing_ = true;
}

Capture CudaStreams::end_capture() {
  capturing_ = false;
  cudaGraph_t graph = nullptr;
  cudaError_t result = cudaStreamEndCapture(compute(), &graph);
  if (result != cudaSuccess) return refused(result, "cudaStreamEndCapture");
  const GraphHandle owned(graph);
  cudaGraphExec_t executable = nullptr;
  result = cudaGraphInstantiate(&executable, graph, 0);
  if (result != cudaSuccess) return refused(result, "cudaGraphInstantiate");
  // The first launch uploads it: cudaGraphUpload crashes on NCCL's nodes (driver 580.159,
  // NCCL 2.28.9).
  return {.graph = std::make_unique<CudaGraph>(ExecutableHandle(executable), compute()),
          .why_not = {}};
}

}  // namespace shardscope::cuda
