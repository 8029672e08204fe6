#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/operands.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/team.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {
namespace {

/// One member's scratch, in this order in its workspace.
struct Scratch {
  float* keys_transposed;    ///< [blocks][head_dim][block]
  float* values_transposed;  ///< [blocks][head_dim][block]
  float* keys;               ///< [blocks * block][width], and so are the next five
  float* queries;
  float* dy;
  float* dkeys;
  float* dvalues;
  float* dqueries;  ///< [block][width]
  float* weights;   ///< [block][block]
  float* dscores;   ///< [block][block]
  float* dots;      ///< [block]: dy . y of each row
};

std::int64_t scratch_floats(const AttentionKernel& kernel) {
  const std::int64_t length = blocks_of(kernel.length) * block;
  const std::int64_t width = padded_width(kernel.head_dim);
  return 2 * length * kernel.head_dim + 5 * length * width + block * width + 2 * block * block +
         block;
}

Scratch scratch_of(const AttentionKernel& kernel, float* workspace, int member) {
  const std::int64_t length = blocks_of(kernel.length) * block;
  const std::int64_t width = padded_width(kernel.head_dim);
  float* next = workspace + member * scratch_floats(kernel);
  const auto take = [&](std::int64_t floats) {
    float* taken = next;
    next += floats;
    return taken;
  };
  Scratch s{};
  s.keys_transposed = take(length * kernel.head_dim);
  s.values_transposed = take(length * kernel.head_dim);
  s.keys = take(length * width);
  s.queries = take(length * width);
  s.dy = take(length * width);
  s.dkeys = take(length * width);
  s.dvalues = take(length * width);
  s.dqueries = take(block * width);
  s.weights = take(block * block);
  s.dscores = take(block * block);
  s.dots = take(block);
  return s;
}

template <class T>
struct Head {
  HeadRows<const T> q;
  HeadRows<const T> dy;
  HeadRows<const T> y;
  const float* lse;  ///< [length]
  HeadRows<T> dq;
};

/// weights = e^(scale scores - lse), dscores = scale weights (dweights - dot); 0 where the key is
/// not visible.
void softmax_backward(const Scratch& s, const float* lse, float scale, std::int64_t rows,
                      bool diagonal) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float* scores = s.weights + row * block;
    float* gradients = s.dscores + row * block;
    for (std::int64_t i = 0; i < block; i += lanes) {
      Floats weight = exp(load(scores + i) * scale - lse[row]);
      Floats gradient = weight * (load(gradients + i) - s.dots[row]) * scale;
      if (diagonal) {
        weight = select(visible(i, row), weight, Floats{});
        gradient = select(visible(i, row), gradient, Floats{});
      }
      store(scores + i, weight);
      store(gradients + i, gradient);
    }
  }
}

template <class T>
void dot_rows(HeadRows<const float> a, HeadRows<const T> b, std::int64_t width, std::int64_t rows,
              float* dots) {
  for (std::int64_t row = 0; row < rows; ++row) {
    Floats sum{};
    for_vectors(0, width, [&](std::int64_t i, auto part) {
      sum += load(a.row(row) + i, part) * load(b.row(row) + i, part);
    });
    dots[row] = sum_of(sum);
  }
}

template <class T>
void copy_rows(const float* from, std::int64_t from_stride, HeadRows<T> to, std::int64_t width,
               std::int64_t rows) {
  for (std::int64_t row = 0; row < rows; ++row)
    for_vectors(0, width, [&](std::int64_t i, auto part) {
      store(to.row(row) + i, load(from + row * from_stride + i, part), part);
    });
}

template <class T>
void differentiate(const AttentionKernel& kernel, const Scratch& s, const Head<T>& head) {
  const std::int64_t width = padded_width(kernel.head_dim);
  const float scale = static_cast<float>(kernel.scale);
  pack_rows(head.q, kernel, s.queries);
  pack_rows(head.dy, kernel, s.dy);
  for (std::int64_t i = 0; i < blocks_of(kernel.length); ++i) {
    const std::int64_t first = i * block;
    const std::int64_t left = kernel.length - first;
    const std::int64_t rows = left < block ? left : block;
    const HeadRows<const float> q{s.queries + first * width, width};
    const HeadRows<const float> dy{s.dy + first * width, width};
    dot_rows<T>(dy, {head.y.row(first), head.y.stride}, kernel.head_dim, rows, s.dots);
    zero(s.dqueries, block * width);
    for (std::int64_t j = 0; j <= i; ++j) {
      const std::int64_t keys = j == i ? rows : block;
      const std::int64_t packed = j * kernel.head_dim * block;
      const std::int64_t key_rows = j * block * width;
      const bool diagonal = j == i;
      block_scores(q, s.keys_transposed + packed, s.weights, kernel.head_dim, rows, diagonal);
      block_scores(dy, s.values_transposed + packed, s.dscores, kernel.head_dim, rows, diagonal);
      // The first row sees one key, whose weight is 1: its dot is that key's own product, to the
      // last bit.
      if (i == 0) s.dots[0] = s.dscores[0];
      softmax_backward(s, head.lse + first, scale, rows, diagonal);
      add_transposed_weighted(s.weights, dy.data, s.dvalues + key_rows, width, rows, keys,
                              diagonal);
      add_transposed_weighted(s.dscores, q.data, s.dkeys + key_rows, width, rows, keys, diagonal);
      add_weighted_values(s.dscores, s.keys + key_rows, s.dqueries, width, rows, diagonal);
    }
    copy_rows<T>(s.dqueries, width, {head.dq.row(first), head.dq.stride}, kernel.head_dim, rows);
  }
}

template <class T>
void differentiate_all(const AttentionKernel& kernel, const KernelCall& call, int threads) {
  const T* dy = operand<T>(call, 0);
  const T* q = operand<T>(call, 1);
  const T* k = operand<T>(call, 2);
  const T* v = operand<T>(call, 3);
  const T* y = operand<T>(call, 4);
  const float* lse = operand(call, 5);
  T* dq = operand<T>(call, 6);
  T* dk = operand<T>(call, 7);
  T* dv = operand<T>(call, 8);
  float* workspace = operand(call, 9);
  const std::int64_t group = kernel.heads / kernel.kv_heads;
  const std::int64_t y_stride = kernel.heads * kernel.head_dim;
  const std::int64_t width = padded_width(kernel.head_dim);
  const std::int64_t packed = blocks_of(kernel.length) * block * width;
  parallel(threads, [&](Member member) {
    const Scratch s = scratch_of(kernel, workspace, member.index);
    // What lies beyond the length or above the diagonal is multiplied by 0: it must be finite.
    zero(s.keys_transposed, scratch_floats(kernel));
    const Range items = share(kernel.batch * kernel.kv_heads, member);
    for (std::int64_t item = items.begin; item < items.end; ++item) {
      const auto [batch, kv_head] = key_value_head(kernel, item);
      const auto of_k = head_rows(k, kernel, kernel.kv_stride, batch, kv_head);
      const auto of_v = head_rows(v, kernel, kernel.kv_stride, batch, kv_head);
      pack_transposed(of_k, kernel, s.keys_transposed);
      pack_transposed(of_v, kernel, s.values_transposed);
      pack_rows(of_k, kernel, s.keys);
      zero(s.dkeys, packed);
      zero(s.dvalues, packed);
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        differentiate<T>(kernel, s,
                         {.q = head_rows(q, kernel, kernel.q_stride, batch, head),
                          .dy = head_rows(dy, kernel, y_stride, batch, head),
                          .y = head_rows(y, kernel, y_stride, batch, head),
                          .lse = lse + (batch * kernel.heads + head) * kernel.length,
                          .dq = head_rows(dq, kernel, kernel.q_stride, batch, head)});
      }
      copy_rows(s.dkeys, width, head_rows(dk, kernel, kernel.kv_stride, batch, kv_head),
                kernel.head_dim, kernel.length);
      copy_rows(s.dvalues, width, head_rows(dv, kernel, kernel.kv_stride, batch, kv_head),
                kernel.head_dim, kernel.length);
    }
  });
}

}  // namespace

Bytes workspace(const AttentionBackwardKernel& kernel, int threads) {
  return {threads * scratch_floats(kernel) * static_cast<std::int64_t>(sizeof(float))};
}

void run(const AttentionBackwardKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.dtype,
               [&](auto element) { differentiate_all<decltype(element)>(kernel, call, threads); });
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
