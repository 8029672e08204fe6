// Runs the bodies of the CUDA kernels on the CPU: blocks one after the other, the threads of a
// block as coroutines that take turns at every sync and shuffle. Slow, exact, and honest about what
// a device would not forgive: threads that wait at different places, shared memory beyond what was
// asked for, a block larger than any device takes.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/cuda/simt.h"

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
    static_assert(sizeof(T) <= sizeof(double));
    T other;
    exchange(&value, &other, sizeof(T), mask);
    return other;
  }
  /// What stood there before.
  std::int32_t add(std::int32_t* to, std::int32_t value) const {
    const std::int32_t old = *to;
    *to += value;
    return old;
  }

 private:
  std::byte* shared_memory() const;
  void exchange(const void* mine, void* other, std::size_t bytes, int mask);

  EmulatedBlock* block_;
  int index_;
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

 private:
  void check(const cuda::LaunchShape& shape, int most_threads, std::size_t argument_bytes) const;
  void run(const cuda::LaunchShape& shape, const std::function<void(EmulatedThread)>& body) const;
};

}  // namespace shardscope::test
