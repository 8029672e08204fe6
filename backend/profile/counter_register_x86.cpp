#include "backend/profile/counter_register.h"

namespace shardscope {

const bool has_counter_registers = true;

std::uint64_t read_counter_register(std::uint32_t number) {
  std::uint32_t low = 0, high = 0;
  asm volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(number));
  return std::uint64_t{high} << 32 | low;
}

}  // namespace shardscope
