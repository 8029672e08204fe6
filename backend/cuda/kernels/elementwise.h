// Kernels in which every element stands for itself.
#pragma once

#include <utility>

#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/simt.h"

namespace shardscope::cuda {

/// Blocks for a loop over `items`: enough to fill the largest device, few enough to be cheap.
constexpr LaunchShape elementwise_shape(std::int64_t items) {
  constexpr std::int64_t most_blocks = 2048;
  const std::int64_t wanted = blocks_for(items, usual_threads);
  return {.blocks = wanted < 1 ? 1 : wanted > most_blocks ? most_blocks : wanted};
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

template <class T>
struct GeluForward {
  const T* h;
  T* y;
  std::int64_t elements;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, elements, [&](std::int64_t i) {
      const float x = get(h[i]);
      put(y[i], x * sigmoid(two_root_two_over_pi * x * (1.0f + gelu_cubic * x * x)).value);
    });
  }
};

template <class T>
struct GeluBackward {
  const T* h;
  T* dy;  ///< becomes dh
  std::int64_t elements;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, elements, [&](std::int64_t i) {
      const float x = get(h[i]);
      const Sigmoid gate = sigmoid(two_root_two_over_pi * x * (1.0f + gelu_cubic * x * x));
      const float slope = two_root_two_over_pi * (1.0f + 3.0f * gelu_cubic * x * x);
      put(dy[i], get(dy[i]) * (gate.value + x * (gate.value * gate.complement) * slope));
    });
  }
};

template <class T>
struct SwigluForward {
  const T* gate;
  const T* up;
  T* y;
  std::int64_t elements;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, elements, [&](std::int64_t i) {
      const float g = get(gate[i]);
      put(y[i], g * sigmoid(g).value * get(up[i]));
    });
  }
};

template <class T>
struct SwigluBackward {
  const T* dy;
  T* gate;  ///< becomes dgate
  T* up;    ///< becomes dup
  std::int64_t elements;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, elements, [&](std::int64_t i) {
      const float g = get(gate[i]), gradient = get(dy[i]);
      const Sigmoid s = sigmoid(g);
      put(gate[i], gradient * get(up[i]) * s.value * (1.0f + g * s.complement));
      put(up[i], gradient * (g * s.value));
    });
  }
};

template <class T>
struct Add {
  const T* a;
  T* b;
  std::int64_t elements;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, elements, [&](std::int64_t i) { put(b[i], get(b[i]) + get(a[i])); });
  }
};

template <class T>
struct FillZero {
  T* a;
  std::int64_t elements;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, elements, [&](std::int64_t i) { a[i] = T{}; });
  }
};

/// Starts Body<T> over all elements with the first `pointers` operands as its members.
template <template <class> class Body, std::size_t pointers, class Stream>
void launch_elementwise(const Kernel& kernel, const KernelCall& call, std::int64_t elements,
                        Stream& stream) {
  with_element(kernel.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    const auto body = [&]<std::size_t... index>(std::index_sequence<index...>) {
      return Body<T>{operand<T>(call, index)..., elements};
    };
    stream.launch(body(std::make_index_sequence<pointers>()), elementwise_shape(elements));
  });
}

template <class Stream>
void gelu_forward(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  launch_elementwise<GeluForward, 2>(kernel, call, kernel.rows * kernel.in, stream);
}

template <class Stream>
void gelu_backward(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  launch_elementwise<GeluBackward, 2>(kernel, call, kernel.rows * kernel.in, stream);
}

template <class Stream>
void swiglu_forward(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  launch_elementwise<SwigluForward, 3>(kernel, call, kernel.rows * kernel.in, stream);
}

template <class Stream>
void swiglu_backward(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  launch_elementwise<SwigluBackward, 3>(kernel, call, kernel.rows * kernel.in, stream);
}

template <class Stream>
void add(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  launch_elementwise<Add, 2>(kernel, call, kernel.elements, stream);
}

template <class Stream>
void fill_zero(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  launch_elementwise<FillZero, 1>(kernel, call, kernel.elements, stream);
}

}  // namespace shardscope::cuda
