// How many rows of logits exist at once. The head's product, the loss and the head's two gradients
// run over such a chunk, then over the next.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/quantities.h"

namespace shardscope {

struct LogitsChunks {
  std::int64_t rows = 0;  ///< of a chunk; the last one may have fewer
  std::int64_t count = 0;
  std::int64_t stride = 0;  ///< elements between rows: so that each starts on 16 bytes or more
};

/// Chunks of about the same number of rows, a multiple of 128 where there are more than one, with
/// at most `most` bytes each (at least one row); no more than 1024 chunks.
/// Example: 32,768 rows of 50,257 bfloat16 in 1 GiB: 4 chunks of 8192 rows, 50,264 apart.
LogitsChunks logits_chunks(std::int64_t rows, std::int64_t vocabulary, Dtype dtype, Bytes most);

}  // namespace shardscope
