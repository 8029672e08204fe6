#include "backend/cpu/kernels/kernels.h"

#include <utility>

namespace shardscope::cpu::SHARDSCOPE_CPU_ISA {
namespace {

template <KernelStruct K>
KernelEntry entry_of() {
  KernelEntry entry;
  entry.run = [](const Kernel& kernel, const KernelCall& call, int threads) {
    run(kernel.get<K>(), call, threads);
  };
  if constexpr (requires(const K& kernel) { workspace(kernel, 1); })
    entry.workspace = [](const Kernel& kernel, int threads) {
      return workspace(kernel.get<K>(), threads);
    };
  return entry;
}

template <std::size_t... i>
KernelTable make_table(std::index_sequence<i...>) {
  return {.instruction_set = SHARDSCOPE_CPU_ISA_TEXT(SHARDSCOPE_CPU_ISA),
          .entries = {entry_of<std::variant_alternative_t<i, KernelVariant>>()...}};
}

}  // namespace

const KernelTable& kernel_table() {
  static const KernelTable table = make_table(std::make_index_sequence<kernel_kind_count>());
  return table;
}

}  // namespace shardscope::cpu::SHARDSCOPE_CPU_ISA
