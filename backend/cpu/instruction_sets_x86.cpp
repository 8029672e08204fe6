#include <span>
#include <vector>

#include "backend/cpu/kernel_table.h"

namespace shardscope::cpu {

namespace baseline {
const KernelTable& kernel_table();
}
namespace avx2 {
const KernelTable& kernel_table();
}
namespace avx512 {
const KernelTable& kernel_table();
}

namespace {

std::vector<const KernelTable*> find_usable() {
  std::vector<const KernelTable*> usable{&baseline::kernel_table()};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    usable.push_back(&avx2::kernel_table());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512cd"))
    usable.push_back(&avx512::kernel_table());
  return usable;
}

}  // namespace

std::span<const KernelTable* const> usable_kernel_tables() {
  static const std::vector<const KernelTable*> usable = find_usable();
  return usable;
}

}  // namespace shardscope::cpu
