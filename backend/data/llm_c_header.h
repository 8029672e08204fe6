// The header of llm.c's token files (karpathy/llm.c, llmc/dataloader.h): 256 int32, little-endian.
#pragma once

#include <array>
#include <cstdint>

namespace shardscope {

inline constexpr std::int32_t llm_c_magic = 20240520;
inline constexpr std::int32_t llm_c_version = 1;
/// Magic, version, number of uint16 tokens that follow, zeros.
using LlmCHeader = std::array<std::int32_t, 256>;

}  // namespace shardscope
