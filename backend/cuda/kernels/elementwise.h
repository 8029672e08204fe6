// Kernels in which every element stands for itself.
#pragma once

#include <utility>

#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/simt.h"
#include "backend/cuda/kernels/vectors.h"

namespace shardscope::cuda {

/// Blocks for a loop over `items`: enough to fill the largest device, few enough to be cheap.
constexpr LaunchShape elementwise_shape(std::int64_t items) {
  constexpr std::int64_t most_blocks = 2048;
  const std::int64_t wanted = blocks_for(items, usual_threads);
  return {.blocks = wanted < 1 ? 1 : wanted > most_blocks ? most_blocks : wanted};
}

/// The same where a thread takes vectors.
constexpr LaunchShape vector_shape(std::int64_t elements) {
  return elementwise_shape(blocks_for(elements, vector_elements));
}

/// s = 1 / (1 + e^-x) and 1 - s, each with its own digits.
struct Sigmoid {
  float value, complement;
};
SHARDSCOPE_DEVICE Sigmoid sigmoid(float x) {
  const float e = expf(-fabsf(x));
  const float large = 1.0f / (1.0f + e), small = e / (1.0f + e);
  return x >= 0 ? Sigmoid{large, small} : Sigmoid{small, large};
}

/// gelu_tanh(h) = h sigmoid(2 u) with u = sqrt(2 / pi) (h + 0.044715 h^3).
inline constexpr float two_root_two_over_pi = 1.5957691216057308f;
inline constexpr float gelu_cubic = 0.044715f;

SHARDSCOPE_DEVICE float gelu(float x) {
  return x * sigmoid(two_root_two_over_pi * x * (1.0f + gelu_cubic * x * x)).value;
}
SHARDSCOPE_DEVICE float gelu_slope(float x) {
  const Sigmoid gate = sigmoid(two_root_two_over_pi * x * (1.0f + gelu_cubic * x * x));
  const float slope = two_root_two_over_pi * (1.0f + 3.0f * gelu_cubic * x * x);
  return gate.value + x * (gate.value * gate.complement) * slope;
}

template <class T>
struct GeluForward {
  const T* h;
  T* y;
  std::int64_t elements;
  bool aligned;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid_vectors(thread, elements, aligned, [&](std::int64_t i, auto some) {
      constexpr int n = decltype(some)::value;
      float x[n];
      load(h + i, x);
      for (int k = 0; k < n; ++k) x[k] = gelu(x[k]);
      store(y + i, x);
    });
  }
};

template <class T>
struct GeluBackward {
  const T* h;
  T* dy;  ///< becomes dh
  std::int64_t elements;
  bool aligned;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid_vectors(thread, elements, aligned, [&](std::int64_t i, auto some) {
      constexpr int n = decltype(some)::value;
      float x[n], gradient[n];
      load(h + i, x);
      load(dy + i, gradient);
      for (int k = 0; k < n; ++k) gradient[k] *= gelu_slope(x[k]);
      store(dy + i, gradient);
    });
  }
};

template <class T>
struct SwigluForward {
  const T* gate;
  const T* up;
  T* y;
  std::int64_t elements;
  bool aligned;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid_vectors(thread, elements, aligned, [&](std::int64_t i, auto some) {
      constexpr int n = decltype(some)::value;
      float g[n], u[n];
      load(gate + i, g);
      load(up + i, u);
      for (int k = 0; k < n; ++k) u[k] *= g[k] * sigmoid(g[k]).value;
      store(y + i, u);
    });
  }
};

template <class T>
struct SwigluBackward {
  const T* dy;
  T* gate;  ///< becomes dgate
  T* up;    ///< becomes dup
  std::int64_t elements;
  bool aligned;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid_vectors(thread, elements, aligned, [&](std::int64_t i, auto some) {
      constexpr int n = decltype(some)::value;
      float gradient[n], g[n], u[n];
      load(dy + i, gradient);
      load(gate + i, g);
      load(up + i, u);
      for (int k = 0; k < n; ++k) {
        const Sigmoid s = sigmoid(g[k]);
        const float dup = gradient[k] * (g[k] * s.value);
        g[k] = gradient[k] * u[k] * s.value * (1.0f + g[k] * s.complement);
        u[k] = dup;
      }
      store(gate + i, g);
      store(up + i, u);
    });
  }
};

template <class T>
struct Add {
  const T* a;
  T* b;
  std::int64_t elements;
  bool aligned;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid_vectors(thread, elements, aligned, [&](std::int64_t i, auto some) {
      constexpr int n = decltype(some)::value;
      float of_a[n], of_b[n];
      load(a + i, of_a);
      load(b + i, of_b);
      for (int k = 0; k < n; ++k) of_b[k] += of_a[k];
      store(b + i, of_b);
    });
  }
};

/// Of any type in which no bits are 0.
template <class T>
struct FillZero {
  T* a;
  std::int64_t elements;
  bool aligned;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    struct alignas(16) Zeros {
      std::uint32_t word[4];
    };
    constexpr std::int64_t of_zeros = sizeof(Zeros) / sizeof(T);
    const std::int64_t vectors = aligned ? elements / of_zeros : 0, rest = vectors * of_zeros;
    auto* zeros = reinterpret_cast<Zeros*>(a);
    for_grid(thread, vectors, [&](std::int64_t i) { zeros[i] = Zeros{}; });
    for_grid(thread, elements - rest, [&](std::int64_t i) { a[rest + i] = T{}; });
  }
};

template <class T>
FillZero<T> fill_zero_of(T* a, std::int64_t elements) {
  return {a, elements, are_aligned(a)};
}

/// Starts Body<T> over all elements with the first `pointers` operands as its members.
template <template <class> class Body, std::size_t pointers, class Stream>
void launch_elementwise(Dtype dtype, const KernelCall& call, std::int64_t elements,
                        Stream& stream) {
  with_element(dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    const auto body = [&]<std::size_t... index>(std::index_sequence<index...>) {
      return Body<T>{operand<T>(call, index)..., elements, are_aligned(operand<T>(call, index)...)};
    };
    stream.launch(body(std::make_index_sequence<pointers>()), vector_shape(elements));
  });
}

template <class Stream>
void run(const GeluForwardKernel& kernel, const KernelCall& call, Stream& stream) {
  launch_elementwise<GeluForward, 2>(kernel.dtype, call, kernel.rows * kernel.features, stream);
}

template <class Stream>
void run(const GeluBackwardKernel& kernel, const KernelCall& call, Stream& stream) {
  launch_elementwise<GeluBackward, 2>(kernel.dtype, call, kernel.rows * kernel.features, stream);
}

template <class Stream>
void run(const SwigluForwardKernel& kernel, const KernelCall& call, Stream& stream) {
  launch_elementwise<SwigluForward, 3>(kernel.dtype, call, kernel.rows * kernel.features, stream);
}

template <class Stream>
void run(const SwigluBackwardKernel& kernel, const KernelCall& call, Stream& stream) {
  launch_elementwise<SwigluBackward, 3>(kernel.dtype, call, kernel.rows * kernel.features, stream);
}

template <class Stream>
void run(const AddKernel& kernel, const KernelCall& call, Stream& stream) {
  launch_elementwise<Add, 2>(kernel.dtype, call, kernel.elements, stream);
}

template <class Stream>
void run(const FillZeroKernel& kernel, const KernelCall& call, Stream& stream) {
  launch_elementwise<FillZero, 1>(kernel.dtype, call, kernel.elements, stream);
}

}  // namespace shardscope::cuda
