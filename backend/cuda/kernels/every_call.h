// The calls that a kernel may get, for those who want to know what it launches and run nothing.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "backend/device/device.h"

namespace shardscope::cuda {

/// The operand whose absence makes a call launch what it does not launch else; none for most kinds.
constexpr std::optional<std::size_t> operand_that_saves_a_launch(KernelKind kind) {
  if (kind == KernelKind::cross_entropy) return 3;  // counted: else it counts itself
  return std::nullopt;
}

/// Calls `body(KernelCall)` so that everything is launched that a call of `kernel` may launch: with
/// all operands, which lie in host memory that nobody looks at.
template <class Body>
void for_every_call(const Kernel& kernel, const Body& body) {
  alignas(256) static std::byte somewhere[256];
  constexpr std::size_t most_operands = 16;
  std::array<void*, most_operands> operands;
  operands.fill(somewhere);
  const std::array<Slice, 1> slices{Slice{.elements = 1}};
  const KernelCall call{.operands = operands, .slices = slices, .state = {}};
  body(call);
  if (const auto absent = operand_that_saves_a_launch(kernel.kind())) {
    operands[*absent] = nullptr;
    body(call);
  }
}

}  // namespace shardscope::cuda
