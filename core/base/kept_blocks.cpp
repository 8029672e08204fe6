#include "core/base/kept_blocks.h"

#include <array>
#include <cstdlib>
#include <mutex>
#include <new>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SHARDSCOPE_HAS_GLIBC_HEAP
#include <malloc.h>
#endif

namespace shardscope {

#ifdef SHARDSCOPE_HAS_GLIBC_HEAP
namespace {

// A block of glibc's has 16 k + 8 bytes, k at least 1.
constexpr std::size_t step = 16, rest = 8;
constexpr std::size_t sizes = 64;

constexpr std::size_t place_for(std::size_t bytes) {
  return bytes <= step + rest ? 1 : (bytes - rest + step - 1) / step;
}
static_assert(place_for(24) == 1 && place_for(25) == 2 && place_for(40) == 2);

struct Block {
  Block* next;
};

struct Lists {
  std::array<Block*, sizes> blocks{};  ///< by k
  std::size_t bytes = 0;
  Lists* next = nullptr;
};

/// Of threads that have ended.
constinit std::mutex left_mutex;
constinit Lists* left = nullptr;

constinit thread_local Lists* mine = nullptr;
constinit thread_local bool has_ended = false;

/// What the last objects of the thread free goes to malloc.
struct Leave {
  ~Leave() {
    const std::scoped_lock lock(left_mutex);
    mine->next = left;
    left = mine;
    mine = nullptr;
    has_ended = true;
  }
};

Lists* left_by_another() {
  const std::scoped_lock lock(left_mutex);
  Lists* found = left;
  if (found != nullptr) left = found->next;
  return found;
}

/// Whether this thread has lists from now on.
bool begin() {
  if (has_ended) return false;
  mine = left_by_another();
  if (mine == nullptr) {
    void* memory = std::malloc(sizeof(Lists));
    if (memory == nullptr) return false;
    mine = new (memory) Lists;
  }
  thread_local const Leave leave;
  return true;
}

bool has_lists() { return mine != nullptr || begin(); }

}  // namespace

void* take_kept_block(std::size_t bytes) noexcept {
  const std::size_t place = place_for(bytes);
  if (place >= sizes || !has_lists()) return nullptr;
  Block*& first = mine->blocks[place];
  if (first == nullptr) return nullptr;
  Block* block = first;
  first = block->next;
  __builtin_prefetch(first, 1);
  mine->bytes -= place * step + rest;
  return block;
}

bool keep_block(void* block) noexcept {
  const std::size_t bytes = malloc_usable_size(block), place = bytes / step;
  if (place >= sizes || !has_lists() || mine->bytes + bytes > most_kept_bytes) return false;
  mine->blocks[place] = new (block) Block{mine->blocks[place]};
  mine->bytes += bytes;
  return true;
}

std::size_t kept_bytes() noexcept { return mine == nullptr ? 0 : mine->bytes; }

#else

void* take_kept_block(std::size_t) noexcept { return nullptr; }
bool keep_block(void*) noexcept { return false; }
std::size_t kept_bytes() noexcept { return 0; }

#endif

}  // namespace shardscope
