// CRC-32 by carry-less multiplication, where the processor has it. zlib's table method reads at a
// third of that speed or less, which is less than a disk gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardscope {

/// Least bytes that `fold_crc32` takes.
inline constexpr std::size_t least_folded = 64;

bool can_fold_crc32();

/// The first bytes of a message, folded.
struct FoldedCrc32 {
  std::byte remainder[16];   ///< has the CRC of the message, begun with a register of 0
  std::size_t consumed = 0;  ///< bytes of the message; a multiple of 16
};
/// Of at least `least_folded` bytes behind those with the checksum `before`. Only where
/// `can_fold_crc32`. Source: V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using
/// PCLMULQDQ Instruction", Intel 2009, bit-reflected, steps 1 and 2.
FoldedCrc32 fold_crc32(std::span<const std::byte> bytes, std::uint32_t before);

}  // namespace shardscope
