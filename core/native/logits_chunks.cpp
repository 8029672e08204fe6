#include "core/native/logits_chunks.h"

#include <algorithm>

namespace shardscope {
namespace {

/// Tensor cores want rows that start on 16 bytes.
constexpr std::int64_t row_elements = 8;
/// Rows of a tile of a matrix product.
constexpr std::int64_t tile_rows = 128;
/// So that no size of a model makes a schedule without end.
constexpr std::int64_t most_chunks = 1024;

std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t rounded_up(std::int64_t a, std::int64_t to) { return quotient_up(a, to) * to; }

}  // namespace

LogitsChunks logits_chunks(std::int64_t rows, std::int64_t vocabulary, Dtype dtype, Bytes most) {
  const std::int64_t stride = rounded_up(vocabulary, row_elements);
  const std::int64_t fit = std::max({most.count / bytes_of(stride, dtype).count,
                                     quotient_up(rows, most_chunks), std::int64_t{1}});
  if (fit >= rows) return {.rows = rows, .count = 1, .stride = stride};
  const std::int64_t even = quotient_up(rows, quotient_up(rows, fit));
  const std::int64_t of_chunk = std::min(rounded_up(even, tile_rows), fit);
  return {.rows = of_chunk, .count = quotient_up(rows, of_chunk), .stride = stride};
}

}  // namespace shardscope
