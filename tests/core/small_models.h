// Small models for tests of what is built on them, written down by hand.
#pragma once

#include "core/model/model.h"

namespace shardscope::testing {

/// GPT-2: V 16, C 8, 2 heads, 8 positions, MLP of 32, tied head. Per block 12 C^2 + 13 C = 872
/// elements; outside the blocks V C + P C + 2 C = 128 + 64 + 16 = 208.
Model small_gpt2(int blocks);

/// Llama: V 16, C 8, 2 heads of 4, 1 key-value head, MLP of 12, untied. Per block q 64, k 32, v 32,
/// o 64, gate, up, down 96 each, two norms of 8: 496 elements; outside embedding 128, norm 8, head
/// 128: 264.
Model small_llama(int blocks);

}  // namespace shardscope::testing
