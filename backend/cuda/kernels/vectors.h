// Accesses of 16 bytes: several elements of an array at a time, the odd rest one by one.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/simt.h"

namespace shardscope::cuda {

/// Elements that a thread takes at a time: 16 bytes of bfloat16, twice 16 of float32.
inline constexpr int vector_elements = 8;

template <int count>
struct Elements {
  static constexpr int value = count;
};

/// What is moved in one access: 16 bytes, or `count` elements where those are fewer.
template <class T, int count>
struct Access {
  static constexpr int elements = sizeof(T) * count < 16 ? count : 16 / sizeof(T);
  struct alignas(elements * sizeof(T)) Type {
    T element[elements];
  };
};

/// `from` is aligned to an access.
template <int count, class T>
SHARDSCOPE_DEVICE void load(const T* from, float (&to)[count]) {
  using Some = Access<T, count>;
  for (int begin = 0; begin < count; begin += Some::elements) {
    const auto access = *reinterpret_cast<const typename Some::Type*>(from + begin);
    for (int i = 0; i < Some::elements; ++i) to[begin + i] = get(access.element[i]);
  }
}

/// Rounds each once.
template <int count, class T>
SHARDSCOPE_DEVICE void store(T* to, const float (&from)[count]) {
  using Some = Access<T, count>;
  for (int begin = 0; begin < count; begin += Some::elements) {
    typename Some::Type access;
    for (int i = 0; i < Some::elements; ++i) put(access.element[i], from[begin + i]);
    *reinterpret_cast<typename Some::Type*>(to + begin) = access;
  }
}

/// Whether vectors from the start of each array (absent ones too) are whole accesses.
template <class... T>
bool are_aligned(const T*... arrays) {
  return ((reinterpret_cast<std::uintptr_t>(arrays) % 16 == 0) && ...);
}
/// Whether rows that are `row` elements of T apart keep the alignment of the first.
template <class T>
constexpr bool keeps_alignment(std::int64_t row) {
  return row * static_cast<std::int64_t>(sizeof(T)) % 16 == 0;
}

/// Calls `body(i, Elements<n>)` for this thread's share of 0 .. elements - 1 in its grid: n =
/// vector_elements where `aligned`, 1 for the rest.
template <class Thread, class Body>
SHARDSCOPE_DEVICE void for_grid_vectors(Thread& thread, std::int64_t elements, bool aligned,
                                        const Body& body) {
  const std::int64_t vectors = aligned ? elements / vector_elements : 0;
  const std::int64_t rest = vectors * vector_elements;
  for_grid(thread, vectors,
           [&](std::int64_t v) { body(v * vector_elements, Elements<vector_elements>{}); });
  for_grid(thread, elements - rest, [&](std::int64_t i) { body(rest + i, Elements<1>{}); });
}

/// The same for the thread's share in its block.
template <class Thread, class Body>
SHARDSCOPE_DEVICE void for_block_vectors(Thread& thread, std::int64_t elements, bool aligned,
                                         const Body& body) {
  const std::int64_t vectors = aligned ? elements / vector_elements : 0;
  const std::int64_t rest = vectors * vector_elements;
  for_block(thread, vectors,
            [&](std::int64_t v) { body(v * vector_elements, Elements<vector_elements>{}); });
  for_block(thread, elements - rest, [&](std::int64_t i) { body(rest + i, Elements<1>{}); });
}

}  // namespace shardscope::cuda
