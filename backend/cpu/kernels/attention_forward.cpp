#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels/attention.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/operands.h"
#include "backend/cpu/kernels/simd_math.h"
#include "backend/cpu/team.h"

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {
namespace {

/// One member's scratch, in this order in its workspace.
struct Scratch {
  float* keys;     ///< [blocks][head_dim][block], transposed
  float* values;   ///< [blocks * block][width]
  float* weights;  ///< [block][block]
  float* sums;     ///< [block][width]: the outputs before division
  float* largest;  ///< [block]: largest score of each row so far
  float* totals;   ///< [block]: sum of exponentials of each row so far
  float* queries;  ///< [block][width], where they are not floats already
};

std::int64_t scratch_floats(const AttentionKernel& kernel) {
  const std::int64_t length = blocks_of(kernel.length) * block;
  const std::int64_t width = padded_width(kernel.head_dim);
  const std::int64_t queries = kernel.dtype == Dtype::float32 ? 0 : block * width;
  return length * kernel.head_dim + length * width + block * block + block * width + 2 * block +
         queries;
}

Scratch scratch_of(const AttentionKernel& kernel, float* workspace, int member) {
  const std::int64_t length = blocks_of(kernel.length) * block;
  const std::int64_t width = padded_width(kernel.head_dim);
  Scratch s{};
  s.keys = workspace + member * scratch_floats(kernel);
  s.values = s.keys + length * kernel.head_dim;
  s.weights = s.values + length * width;
  s.sums = s.weights + block * block;
  s.largest = s.sums + block * width;
  s.totals = s.largest + block;
  s.queries = s.totals + block;
  return s;
}

/// Scales and masks one row of scores; returns the largest.
SHARDSCOPE_INLINE float mask_and_scale(float* scores, float scale, std::int64_t row,
                                       bool diagonal) {
  const Floats hidden = broadcast(-std::numeric_limits<float>::infinity());
  Floats largest = hidden;
  for (std::int64_t i = 0; i < block; i += lanes) {
    Floats value = load(scores + i) * scale;
    if (diagonal) value = select(visible(i, row), value, hidden);
    store(scores + i, value);
    largest = larger(largest, value);
  }
  return largest_of(largest);
}

/// What each row's sums so far are multiplied by, now that its largest score may be a larger one.
struct Corrections {
  float of_row[block] = {};

  /// All rows at once: the exponentials of one after the other would wait for each other.
  void update(float* largest, const float* in_block) {
    for (std::int64_t i = 0; i < block; i += lanes) {
      const Floats old = load(largest + i);
      const Floats now = larger(old, load(in_block + i));
      store(largest + i, now);
      store(of_row + i, exp(old - now));
    }
  }
};

/// Turns one block of scores into weights relative to each row's largest score so far (online
/// softmax; Milakov and Gimelshein 2018, arXiv 1805.02867), and rescales what was summed before.
void update_rows(const Scratch& s, float scale, std::int64_t rows, std::int64_t width,
                 bool diagonal) {
  float in_block[block] = {};
  for (std::int64_t row = 0; row < rows; ++row)
    in_block[row] = mask_and_scale(s.weights + row * block, scale, row, diagonal);
  Corrections corrections;
  corrections.update(s.largest, in_block);
  for (std::int64_t row = 0; row < rows; ++row) {
    float* scores = s.weights + row * block;
    Floats total{};
    for (std::int64_t i = 0; i < block; i += lanes) {
      const Floats weight = exp(load(scores + i) - s.largest[row]);
      store(scores + i, weight);
      total += weight;
    }
    const float correction = corrections.of_row[row];
    s.totals[row] = s.totals[row] * correction + sum_of(total);
    float* sums = s.sums + row * width;
    if (correction != 1.0f)
      for (std::int64_t i = 0; i < width; i += lanes) store(sums + i, load(sums + i) * correction);
  }
}

template <class T>
void finish_rows(const Scratch& s, const AttentionKernel& kernel, std::int64_t rows, HeadRows<T> y,
                 float* lse) {
  const std::int64_t width = padded_width(kernel.head_dim);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* sums = s.sums + row * width;
    const float total = s.totals[row];
    for_vectors(0, kernel.head_dim, [&](std::int64_t i, auto part) {
      store(y.row(row) + i, load(sums + i) / total, part);
    });
    lse[row] = s.largest[row] + std::log(total);
  }
}

template <class T>
struct Head {
  HeadRows<const T> q;
  HeadRows<T> y;
  float* lse;  ///< [length]
};

/// A block of queries as floats: as they lie, or widened into scratch.
HeadRows<const float> floats_of(HeadRows<const float> q, const AttentionKernel&, std::int64_t,
                                const Scratch&) {
  return q;
}
HeadRows<const float> floats_of(HeadRows<const Bfloat16> q, const AttentionKernel& kernel,
                                std::int64_t rows, const Scratch& s) {
  const std::int64_t width = padded_width(kernel.head_dim);
  for (std::int64_t row = 0; row < rows; ++row)
    for_vectors(0, kernel.head_dim, [&](std::int64_t i, auto part) {
      store(s.queries + row * width + i, load(q.row(row) + i, part));
    });
  return {s.queries, width};
}

template <class T>
void attend(const AttentionKernel& kernel, const Scratch& s, const Head<T>& head) {
  const std::int64_t width = padded_width(kernel.head_dim);
  const float scale = static_cast<float>(kernel.scale);
  for (std::int64_t i = 0; i < blocks_of(kernel.length); ++i) {
    const std::int64_t first = i * block;
    const std::int64_t left = kernel.length - first;
    const std::int64_t rows = left < block ? left : block;
    const HeadRows<const float> q =
        floats_of(HeadRows<const T>{head.q.row(first), head.q.stride}, kernel, rows, s);
    zero(s.sums, block * width);
    std::fill_n(s.largest, block, -std::numeric_limits<float>::infinity());
    std::fill_n(s.totals, block, 0.0f);
    for (std::int64_t j = 0; j <= i; ++j) {
      block_scores(q, s.keys + j * kernel.head_dim * block, s.weights, kernel.head_dim, rows,
                   j == i);
      update_rows(s, scale, rows, width, j == i);
      add_weighted_values(s.weights, s.values + j * block * width, s.sums, width, rows, j == i);
    }
    finish_rows<T>(s, kernel, rows, {head.y.row(first), head.y.stride}, head.lse + first);
  }
}

template <class T>
void attend_all(const AttentionKernel& kernel, const KernelCall& call, int threads) {
  const T* q = operand<T>(call, 0);
  const T* k = operand<T>(call, 1);
  const T* v = operand<T>(call, 2);
  T* y = operand<T>(call, 3);
  float* lse = operand(call, 4);
  float* workspace = operand(call, 5);
  const std::int64_t group = kernel.heads / kernel.kv_heads;
  parallel(threads, [&](Member member) {
    const Scratch s = scratch_of(kernel, workspace, member.index);
    // Keys beyond the length are masked, but their values are multiplied by the weight 0: they must
    // be finite.
    zero(s.values, blocks_of(kernel.length) * block * padded_width(kernel.head_dim));
    zero(s.weights, block * block);
    const Range items = share(kernel.batch * kernel.kv_heads, member);
    for (std::int64_t item = items.begin; item < items.end; ++item) {
      const auto [batch, kv_head] = key_value_head(kernel, item);
      pack_transposed(head_rows(k, kernel, kernel.kv_stride, batch, kv_head), kernel, s.keys);
      pack_rows(head_rows(v, kernel, kernel.kv_stride, batch, kv_head), kernel, s.values);
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        attend<T>(kernel, s,
                  {.q = head_rows(q, kernel, kernel.q_stride, batch, head),
                   .y = head_rows(y, kernel, kernel.heads * kernel.head_dim, batch, head),
                   .lse = lse + (batch * kernel.heads + head) * kernel.length});
      }
    }
  });
}

}  // namespace

Bytes workspace(const AttentionForwardKernel& kernel, int threads) {
  return {threads * scratch_floats(kernel) * static_cast<std::int64_t>(sizeof(float))};
}

void run(const AttentionForwardKernel& kernel, const KernelCall& call, int threads) {
  with_element(kernel.dtype,
               [&](auto element) { attend_all<decltype(element)>(kernel, call, threads); });
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
