// The processor's counters, read without the kernel.
#pragma once

#include <cstdint>

namespace shardscope {

/// Whether read_counter_register() reads anything on this kind of processor.
extern const bool has_counter_registers;

/// The raw bits of counter `number` of the core that runs this, by rdpmc; only where the kernel
/// allows it. 0 on other processors than x86.
std::uint64_t read_counter_register(std::uint32_t number);

}  // namespace shardscope
