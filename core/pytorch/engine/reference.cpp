#include "core/pytorch/engine/reference.h"

#include <array>
#include <new>
#include <utility>

namespace shardscope::eager {
namespace {

/// Sizes are rounded up to multiples of it.
constexpr std::size_t kept_step = 32;
constexpr std::size_t kept_sizes = 32;
constexpr std::size_t largest_kept = kept_step * kept_sizes;

constexpr std::size_t kept_place(std::size_t bytes) { return (bytes - 1) / kept_step; }

struct KeptBlock {
  KeptBlock* next;
};

/// What the thread keeps, by size.
constinit thread_local std::array<KeptBlock*, kept_sizes> kept_blocks{};
constinit thread_local bool thread_has_ended = false;

/// A thread that ends keeps nothing.
struct EndOfThread {
  EndOfThread() = default;
  EndOfThread(const EndOfThread&) = delete;
  EndOfThread& operator=(const EndOfThread&) = delete;
  ~EndOfThread() {
    thread_has_ended = true;
    for (KeptBlock*& first : kept_blocks)
      while (first != nullptr) ::operator delete(std::exchange(first, first->next));
  }
};

// A sanitizer is to see each object come and go.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool keeps_objects = false;
#else
constexpr bool keeps_objects = true;
#endif

}  // namespace

void* Counted::operator new(std::size_t bytes) {
  if (!keeps_objects || bytes > largest_kept) return ::operator new(bytes);
  const std::size_t place = kept_place(bytes);
  KeptBlock* block = kept_blocks[place];
  if (block == nullptr) return ::operator new((place + 1) * kept_step);
  kept_blocks[place] = block->next;
  return block;
}

void Counted::operator delete(void* memory, std::size_t bytes) noexcept {
  if (!keeps_objects || bytes > largest_kept || thread_has_ended) return ::operator delete(memory);
  thread_local const EndOfThread end;
  const std::size_t place = kept_place(bytes);
  kept_blocks[place] = new (memory) KeptBlock{kept_blocks[place]};
}

}  // namespace shardscope::eager
