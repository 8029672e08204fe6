// The streams, events and graphs of one GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <type_traits>
#include <vector>

#include "backend/device/device_streams.h"

namespace shardscope::cuda {

template <auto destroy>
struct Destroy {
  template <class Handle>
  void operator()(Handle handle) const {
    destroy(handle);  // there is nothing to do about an error
  }
};
using StreamHandle =
    std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy<cudaStreamDestroy>>;
using EventHandle = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy<cudaEventDestroy>>;
using GraphHandle = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy<cudaGraphDestroy>>;
using ExecutableHandle =
    std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy<cudaGraphExecDestroy>>;

/// On the current device; takes no times.
EventHandle make_event();

class CudaStreams final : public DeviceStreams {
 public:
  /// On the device `index`, which becomes this thread's.
  explicit CudaStreams(int index);

  cudaStream_t selected() const { return streams_[selected_].get(); }

  void select(Stream stream) override { selected_ = static_cast<std::size_t>(stream); }
  void* selected_handle() const override { return selected(); }
  bool is_capturing() const override { return capturing_; }
  void make_events(std::size_t count) override;
  void record(std::size_t event) override;
  void wait_for(std::size_t event) override;
  bool has_graphs() const override { return true; }
  void begin_capture() override;
  Capture end_capture() override;

 private:
  cudaStream_t compute() const { return streams_[static_cast<std::size_t>(Stream::compute)].get(); }

  std::array<StreamHandle, stream_count> streams_;
  std::vector<EventHandle> events_;
  std::size_t selected_ = static_cast<std::size_t>(Stream::compute);
  bool capturing_ = false;
};

}  // namespace shardscope::cuda
