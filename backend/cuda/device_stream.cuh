// A stream that starts kernel bodies on the device.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/check.h"
#include "backend/cuda/simt.h"

namespace shardscope::cuda {

/// A thread as the kernels see it.
class DeviceThread {
 public:
  __device__ __forceinline__ std::int64_t block() const { return blockIdx.x; }
  __device__ __forceinline__ std::int64_t blocks() const { return gridDim.x; }
  __device__ __forceinline__ int index() const { return static_cast<int>(threadIdx.x); }
  __device__ __forceinline__ int count() const { return static_cast<int>(blockDim.x); }
  template <class T>
  __device__ __forceinline__ T* shared() const {
    extern __shared__ __align__(16) unsigned char memory[];
    return reinterpret_cast<T*>(memory);
  }
  __device__ __forceinline__ void sync() const { __syncthreads(); }
  template <class T>
  __device__ __forceinline__ T shuffle_xor(T value, int mask) const {
    return __shfl_xor_sync(0xffffffffu, value, mask);
  }
  /// What stood there before.
  __device__ __forceinline__ std::int32_t add(std::int32_t* to, std::int32_t value) const {
    return atomicAdd(to, value);
  }
};

template <class Body>
__global__ __launch_bounds__(most_threads_of<Body>()) void start(const Body body) {
  DeviceThread thread;
  body(thread);
}

class DeviceStream {
 public:
  explicit DeviceStream(cudaStream_t stream) : stream_(stream) {}

  template <class Body>
  void launch(const Body& body, const LaunchShape& shape) const {
    constexpr std::int64_t without_asking = 48 << 10;
    if (shape.shared_bytes > without_asking) {
      check(cudaFuncSetAttribute(start<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shape.shared_bytes)),
            "cudaFuncSetAttribute");
    }
    start<<<static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.threads),
            static_cast<std::size_t>(shape.shared_bytes), stream_>>>(body);
    check(cudaGetLastError(), "kernel launch");
  }

 private:
  cudaStream_t stream_;
};

}  // namespace shardscope::cuda
