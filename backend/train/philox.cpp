#include "backend/train/philox.h"

namespace shardscope {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  constexpr int rounds = 10;
  constexpr std::uint64_t multiplier_0 = 0xD2511F53;
  constexpr std::uint64_t multiplier_1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl_0 = 0x9E3779B9;  // golden ratio
  constexpr std::uint32_t weyl_1 = 0xBB67AE85;  // sqrt(3) - 1
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t product_0 = multiplier_0 * counter[0];
    const std::uint64_t product_1 = multiplier_1 * counter[2];
    counter = {static_cast<std::uint32_t>(product_1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product_1),
               static_cast<std::uint32_t>(product_0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product_0)};
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
  return counter;
}

}  // namespace shardscope
