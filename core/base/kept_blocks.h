// Small blocks of memory that were freed, kept for the next requests of their size: for programs
// whose operator new and delete ask here. glibc keeps seven of a size for a thread and joins others
// with their neighbours, which takes a fifth of the time of a plan.
#pragma once

#include <cstddef>

namespace shardscope {

/// What a thread keeps at most. A thread that ends leaves it to the next one that starts.
inline constexpr std::size_t most_kept_bytes = std::size_t{32} << 20;

/// A block of at least so many bytes that this thread has kept; null: it has none.
void* take_kept_block(std::size_t bytes) noexcept;
/// Takes over a block that malloc gave; false: it is too large, or enough is kept, or malloc is not
/// glibc's.
bool keep_block(void* block) noexcept;

/// Of this thread.
std::size_t kept_bytes() noexcept;

}  // namespace shardscope
