// How the CUDA kernels are written: bodies of threads, blocks and warps that nvcc compiles for the
// device and any C++ compiler for the emulation in the tests.
//
// A body is a value with its arguments as members and
//   template <class Thread> SHARDSCOPE_DEVICE void operator()(Thread& thread) const;
// `Thread` says who it is (block(), blocks(), index(), count()), has the block's shared memory
// (shared()), waits for the block (sync()) and reads its warp's values (shuffle_xor()). A stream
// starts it: stream.launch(body, {.blocks, .threads, .shared_bytes}).
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define SHARDSCOPE_DEVICE __device__ __forceinline__
#else
#define SHARDSCOPE_DEVICE inline
#endif

namespace shardscope::cuda {

inline constexpr int warp_size = 32;
/// Threads of a block unless a kernel says otherwise.
inline constexpr int usual_threads = 256;

/// Threads that a block of `Body` may have: its `most_threads`, or the usual number. The compiler
/// keeps the registers of a thread within what that many leave.
template <class Body>
constexpr int most_threads_of() {
  if constexpr (requires { Body::most_threads; }) return Body::most_threads;
  return usual_threads;
}

struct LaunchShape {
  std::int64_t blocks = 1;
  int threads = usual_threads;
  std::int64_t shared_bytes = 0;
};

constexpr std::int64_t blocks_for(std::int64_t items, std::int64_t per_block) {
  return (items + per_block - 1) / per_block;
}

/// Threads of a block that goes over `items`: whole warps, no more than are of use.
constexpr int threads_for(std::int64_t items, int most = usual_threads) {
  const std::int64_t warps = blocks_for(items, warp_size);
  return warps >= most / warp_size ? most : static_cast<int>(warps < 1 ? 1 : warps) * warp_size;
}

/// Calls `body(i)` for this thread's share of 0 .. items - 1.
template <class Thread, class Body>
SHARDSCOPE_DEVICE void for_grid(Thread& thread, std::int64_t items, const Body& body) {
  const std::int64_t step = static_cast<std::int64_t>(thread.blocks()) * thread.count();
  const std::int64_t first =
      static_cast<std::int64_t>(thread.block()) * thread.count() + thread.index();
  for (std::int64_t i = first; i < items; i += step) body(i);
}

/// Calls `body(i)` for this thread's share of 0 .. items - 1 within its block.
template <class Thread, class Body>
SHARDSCOPE_DEVICE void for_block(Thread& thread, std::int64_t items, const Body& body) {
  for (std::int64_t i = thread.index(); i < items; i += thread.count()) body(i);
}

/// Sum over the warp, the same bits on every lane.
template <class Thread, class T>
SHARDSCOPE_DEVICE T warp_sum(Thread& thread, T value) {
  for (int mask = warp_size / 2; mask > 0; mask /= 2) value += thread.shuffle_xor(value, mask);
  return value;
}

template <class Thread, class T>
SHARDSCOPE_DEVICE T warp_largest(Thread& thread, T value) {
  for (int mask = warp_size / 2; mask > 0; mask /= 2) {
    const T other = thread.shuffle_xor(value, mask);
    // NOLINTNEXTLINE(misc-redundant-expression): written so that NaN is kept
    value = other > value || other != other ? other : value;
  }
  return value;
}

/// `combine` of all warps' values, which lie in `slots` (one for each warp of a block) meanwhile.
template <class Thread, class T, class Combine>
SHARDSCOPE_DEVICE T over_warps(Thread& thread, T value, T* slots, const Combine& combine) {
  thread.sync();
  if (thread.index() % warp_size == 0) slots[thread.index() / warp_size] = value;
  thread.sync();
  T result = slots[0];
  for (int warp = 1; warp < thread.count() / warp_size; ++warp)
    result = combine(result, slots[warp]);
  return result;
}

/// Sum over the block in an order that depends on nothing but its size; on every thread.
template <class Thread, class T>
SHARDSCOPE_DEVICE T block_sum(Thread& thread, T value, T* slots) {
  return over_warps(thread, warp_sum(thread, value), slots, [](T a, T b) { return a + b; });
}

template <class Thread, class T>
SHARDSCOPE_DEVICE T block_largest(Thread& thread, T value, T* slots) {
  return over_warps(thread, warp_largest(thread, value), slots,
                    // NOLINTNEXTLINE(misc-redundant-expression): written so that NaN is kept
                    [](T a, T b) { return b > a || b != b ? b : a; });
}

/// Bytes of `slots` above.
constexpr std::int64_t slot_bytes(int threads) {
  return threads / warp_size * static_cast<std::int64_t>(sizeof(double));
}

}  // namespace shardscope::cuda
