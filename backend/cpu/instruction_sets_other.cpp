#include <array>
#include <span>

#include "backend/cpu/kernel_table.h"

namespace shardscope::cpu {

namespace baseline {
const KernelTable& kernel_table();
}

std::span<const KernelTable* const> usable_kernel_tables() {
  static const std::array<const KernelTable*, 1> usable{&baseline::kernel_table()};
  return usable;
}

}  // namespace shardscope::cpu
