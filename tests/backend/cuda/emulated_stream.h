// Runs the bodies of the CUDA kernels on the CPU: blocks one after the other, the threads of a
// block as coroutines. A warp runs as far ahead of the others as it may. The first warp begins in
// one block, the last in the next, where copies come as soon as they begin instead of when they are
// waited for: two accesses that nothing keeps apart come in either order, and the results of the
// blocks differ; so do those of two launches of a single block. Slow, exact, and honest about what
// a device would not forgive: threads that wait at different places or for one that has ended,
// shared memory beyond what was asked for, a block larger than any device takes, copies that are
// read before they were waited for, rows that do not start on 16 bytes.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/cuda/kernels/simt.h"
#include "backend/cuda/kernels/tensor_core.h"
#include "core/schedule/kernel.h"

namespace shardscope::test {

class EmulatedBlock;

/// A thread as the kernels see it.
class EmulatedThread {
 public:
  EmulatedThread(EmulatedBlock& block, int index) : block_(&block), index_(index) {}

  std::int64_t block() const;
  std::int64_t blocks() const;
  int index() const { return index_; }
  int count() const;
  template <class T>
  T* shared() const {
    return reinterpret_cast<T*>(shared_memory());
  }
  void sync();
  template <class T>
  T shuffle_xor(T value, int mask) {
    T other;
    std::memcpy(&other,
                publish(&value, sizeof(T), Together::shuffle) + (lane() ^ mask) * slot_bytes,
                sizeof(T));
    return other;
  }
  /// What stood there before.
  std::int32_t add(std::int32_t* to, std::int32_t value) const {
    const std::int32_t old = *to;
    *to += value;
    return old;
  }

  // What backend/cuda/kernels/tensor_core.h asks for.
  cuda::Matrices load_matrices(const Bfloat16* row) { return load(row, Together::load); }
  cuda::Matrices load_transposed_matrices(const Bfloat16* row) {
    return load(row, Together::load_transposed);
  }
  void multiply_add(cuda::Accumulator& c, const cuda::Matrices& a, std::uint32_t b0,
                    std::uint32_t b1);
  /// Comes at once or when it is waited for, whatever the block's turn is.
  void copy_async(Bfloat16* to, const Bfloat16* from, bool present);
  void commit_copies();
  template <int groups>
  void wait_for_copies() {
    wait_for_copies(groups);
  }
  std::uint32_t pack(float low, float high) const {
    return to_bfloat16(low).bits | static_cast<std::uint32_t>(to_bfloat16(high).bits) << 16;
  }
  void put_pair(Bfloat16* to, float low, float high) const {
    to[0] = to_bfloat16(low);
    to[1] = to_bfloat16(high);
  }
  float exp2(float x) const { return std::exp2(x); }

 private:
  friend class EmulatedBlock;
  /// What all lanes of a warp must do at once.
  enum class Together : std::uint8_t { shuffle, load, load_transposed, product };
  static constexpr std::ptrdiff_t slot_bytes = 32;

  int lane() const { return index_ % cuda::warp_size; }
  std::byte* shared_memory() const;
  /// Waits until every lane of the warp has published; the first of their slots.
  const std::byte* publish(const void* mine, std::size_t bytes, Together what);
  cuda::Matrices load(const Bfloat16* row, Together how);
  void wait_for_copies(int groups);

  EmulatedBlock* block_;
  int index_;
};

/// What the launches of a stream have met so far.
struct EmulatedCounts {
  std::int64_t launches = 0;
  std::int64_t products = 0;        ///< of tensor cores, by warps
  std::int64_t bank_conflicts = 0;  ///< of loads of matrices
};

/// What a kernel may ask of a device.
struct DeviceLimits {
  std::int64_t shared_bytes_of_block = 163 * 1024;  ///< sm_80, opted in; sm_90 has 227 KiB
  std::int64_t argument_bytes = 4096;
};

class EmulatedStream {
 public:
  template <class Body>
  void launch(const Body& body, const cuda::LaunchShape& shape) {
    check(shape, cuda::most_threads_of<Body>(), sizeof(Body));
    run(shape, [&body](EmulatedThread thread) { body(thread); });
  }
  const EmulatedCounts& counts() const { return counts_; }
  const StepState* step_state() const { return step_state_; }
  /// Where the kernels find the state of the step from now on.
  void use(const StepState* step_state) { step_state_ = step_state; }

 private:
  void check(const cuda::LaunchShape& shape, int most_threads, std::size_t argument_bytes) const;
  void run(const cuda::LaunchShape& shape, const std::function<void(EmulatedThread)>& body);

  EmulatedCounts counts_;
  const StepState* step_state_ = nullptr;
};

}  // namespace shardscope::test
