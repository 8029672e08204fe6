// A stream that starts kernel bodies on the device.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/check.h"
#include "backend/cuda/kernels/simt.h"
#include "backend/cuda/kernels/tensor_core.h"
#include "core/schedule/kernel.h"

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

  // What tensor_core.h asks for.
  __device__ __forceinline__ Matrices load_matrices(const Bfloat16* row) const {
    Matrices m;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.r[0]), "=r"(m.r[1]), "=r"(m.r[2]), "=r"(m.r[3])
                 : "r"(shared_address(row))
                 : "memory");
    return m;
  }
  __device__ __forceinline__ Matrices load_transposed_matrices(const Bfloat16* row) const {
    Matrices m;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m.r[0]), "=r"(m.r[1]), "=r"(m.r[2]), "=r"(m.r[3])
                 : "r"(shared_address(row))
                 : "memory");
    return m;
  }
  __device__ __forceinline__ void multiply_add(Accumulator& c, const Matrices& a, std::uint32_t b0,
                                               std::uint32_t b1) const {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c.r[0]), "+f"(c.r[1]), "+f"(c.r[2]), "+f"(c.r[3])
        : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b0), "r"(b1));
  }
  __device__ __forceinline__ void copy_async(Bfloat16* to, const Bfloat16* from,
                                             bool present) const {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(present ? 16 : 0)
                 : "memory");
  }
  __device__ __forceinline__ void commit_copies() const {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  template <int groups>
  __device__ __forceinline__ void wait_for_copies() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
  }
  __device__ __forceinline__ std::uint32_t pack(float low, float high) const {
    std::uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
  __device__ __forceinline__ void put_pair(Bfloat16* to, float low, float high) const {
    *reinterpret_cast<std::uint32_t*>(to) = pack(low, high);
  }
  __device__ __forceinline__ float exp2(float x) const {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
  }

 private:
  __device__ __forceinline__ static std::uint32_t shared_address(const void* generic) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(generic));
  }
};

template <class Body>
__global__ __launch_bounds__(most_threads_of<Body>()) void start(const Body body) {
  DeviceThread thread;
  body(thread);
}

class DeviceStream {
 public:
  DeviceStream(cudaStream_t stream, const StepState* step_state)
      : stream_(stream), step_state_(step_state) {}

  /// `Body` must have been loaded.
  template <class Body>
  void launch(const Body& body, const LaunchShape& shape) const {
    start<<<static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.threads),
            static_cast<std::size_t>(shape.shared_bytes), stream_>>>(body);
    check(cudaGetLastError(), "kernel launch");
  }
  const StepState* step_state() const { return step_state_; }

 private:
  cudaStream_t stream_;
  const StepState* step_state_;
};

/// Loads the code of what it is asked to launch, and runs nothing. The driver loads a kernel when
/// it is first wanted, which takes memory and time that no step should.
class LoadingStream {
 public:
  template <class Body>
  void launch(const Body&, const LaunchShape& shape) const {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, start<Body>), "cudaFuncGetAttributes");
    // Another call of the body may have asked for more.
    if (shape.shared_bytes <= attributes.maxDynamicSharedSizeBytes) return;
    check(cudaFuncSetAttribute(start<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shape.shared_bytes)),
          "cudaFuncSetAttribute");
  }
  const StepState* step_state() const { return nullptr; }
};

}  // namespace shardscope::cuda
