// Kernels in which every element stands for itself.
#pragma once

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

struct GeluForward {
  const float* h;
  float* y;
  std::int64_t elements;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, elements, [&](std::int64_t i) {
      const float x = h[i];
      y[i] = x * sigmoid(two_root_two_over_pi * x * (1.0f + gelu_cubic * x * x)).value;
    });
  }
};

struct GeluBackward {
  const float* h;
  float* dy;  ///< becomes dh
  std::int64_t elements;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, elements, [&](std::int64_t i) {
      const float x = h[i];
      const Sigmoid gate = sigmoid(two_root_two_over_pi * x * (1.0f + gelu_cubic * x * x));
      const float slope = two_root_two_over_pi * (1.0f + 3.0f * gelu_cubic * x * x);
      dy[i] *= gate.value + x * (gate.value * gate.complement) * slope;
    });
  }
};

struct SwigluForward {
  const float* gate;
  const float* up;
  float* y;
  std::int64_t elements;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, elements,
             [&](std::int64_t i) { y[i] = gate[i] * sigmoid(gate[i]).value * up[i]; });
  }
};

struct SwigluBackward {
  const float* dy;
  float* gate;  ///< becomes dgate
  float* up;    ///< becomes dup
  std::int64_t elements;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, elements, [&](std::int64_t i) {
      const float g = gate[i];
      const Sigmoid s = sigmoid(g);
      gate[i] = dy[i] * up[i] * s.value * (1.0f + g * s.complement);
      up[i] = dy[i] * (g * s.value);
    });
  }
};

struct Add {
  const float* a;
  float* b;
  std::int64_t elements;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    for_grid(thread, elements, [&](std::int64_t i) { b[i] += a[i]; });
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

template <class Stream>
void gelu_forward(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  const std::int64_t elements = kernel.rows * kernel.in;
  stream.launch(GeluForward{operand(call, 0), operand(call, 1), elements},
                elementwise_shape(elements));
}

template <class Stream>
void gelu_backward(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  const std::int64_t elements = kernel.rows * kernel.in;
  stream.launch(GeluBackward{operand(call, 0), operand(call, 1), elements},
                elementwise_shape(elements));
}

template <class Stream>
void swiglu_forward(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  const std::int64_t elements = kernel.rows * kernel.in;
  stream.launch(SwigluForward{operand(call, 0), operand(call, 1), operand(call, 2), elements},
                elementwise_shape(elements));
}

template <class Stream>
void swiglu_backward(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  const std::int64_t elements = kernel.rows * kernel.in;
  stream.launch(SwigluBackward{operand(call, 0), operand(call, 1), operand(call, 2), elements},
                elementwise_shape(elements));
}

template <class Stream>
void add(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  stream.launch(Add{operand(call, 0), operand(call, 1), kernel.elements},
                elementwise_shape(kernel.elements));
}

template <class Stream>
void fill_zero(const Kernel& kernel, const KernelCall& call, Stream& stream) {
  stream.launch(FillZero<float>{operand(call, 0), kernel.elements},
                elementwise_shape(kernel.elements));
}

}  // namespace shardscope::cuda
