// Sums of a matrix's columns, partial sums of chunks of rows first: the order depends on the sizes
// alone.
#pragma once

#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/simt.h"

namespace shardscope::cuda {

/// A block sums 32 columns of partial sums: each of its warps a run of rows, then the runs.
template <class G>
struct SumPartials {
  static constexpr int most_threads = 1024;
  const float* partials;
  G* sum;
  std::int64_t count, row, columns;  ///< partial sums of a column, elements between them
  bool accumulate;

  template <class Thread>
  SHARDSCOPE_DEVICE void operator()(Thread& thread) const {
    auto* runs = thread.template shared<float>();
    const int warp = thread.index() / warp_size, warps = thread.count() / warp_size;
    const std::int64_t column = thread.block() * warp_size + thread.index() % warp_size;
    const std::int64_t share = blocks_for(count, warps), first = warp * share;
    const std::int64_t end = first + share < count ? first + share : count;
    float run = 0;
    if (column < columns)
      for (std::int64_t i = first; i < end; ++i) run += partials[i * row + column];
    runs[thread.index()] = run;
    thread.sync();
    if (warp != 0 || column >= columns) return;
    float total = accumulate ? get(sum[column]) : 0.0f;
    for (int i = thread.index(); i < thread.count(); i += warp_size) total += runs[i];
    put(sum[column], total);
  }
};

template <class G, class Stream>
void sum_partials(const SumPartials<G>& body, Stream& stream) {
  constexpr std::int64_t rows_of_run = 8;
  const int threads =
      threads_for(blocks_for(body.count, rows_of_run) * warp_size, SumPartials<G>::most_threads);
  stream.launch(body, {.blocks = blocks_for(body.columns, warp_size),
                       .threads = threads,
                       .shared_bytes = threads * static_cast<std::int64_t>(sizeof(float))});
}

}  // namespace shardscope::cuda
