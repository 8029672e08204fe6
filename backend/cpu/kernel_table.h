// The kernels as plain functions, one table per instruction set.
//
// The files in kernels/ are compiled once per instruction set, each time into its own namespace, so
// that one binary runs on every x86-64 machine and uses what the processor has.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "backend/device/device.h"
#include "core/schedule/kernel.h"

namespace shardscope::cpu {

/// Runs one kernel on a team of `threads`.
using KernelFunction = void (*)(const Kernel& kernel, const KernelCall& call, int threads);
/// Scratch bytes that the function above wants for a team of `threads`.
using WorkspaceFunction = Bytes (*)(const Kernel& kernel, int threads);

struct KernelEntry {
  KernelFunction run = nullptr;
  WorkspaceFunction workspace = nullptr;  ///< null: none
};

struct KernelTable {
  std::string_view instruction_set;  ///< "avx512", "avx2", "baseline"
  std::array<KernelEntry, kernel_kind_count> entries{};
  const KernelEntry& operator[](KernelKind kind) const {
    return entries[static_cast<std::size_t>(kind)];
  }
};

/// The table of every instruction set that this processor has, narrowest first.
std::span<const KernelTable* const> usable_kernel_tables();
/// The table of the widest one.
inline const KernelTable& best_kernel_table() { return *usable_kernel_tables().back(); }

}  // namespace shardscope::cpu
