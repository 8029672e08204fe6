#include "tests/backend/cuda/fenced_memory.h"

#include <sys/mman.h>

#include <cstring>
#include <mutex>
#include <new>
#include <vector>

namespace shardscope::test {
namespace {

struct Range {
  std::byte* data;
  std::size_t bytes;
};

/// All fenced memory of the process, and how many hold its gate open.
struct Fence {
  std::mutex mutex;
  std::vector<Range> ranges;
  int open = 0;

  void protect(int rights) const {
    for (const Range& range : ranges) mprotect(range.data, range.bytes, rights);
  }
};

Fence& fence() {
  static Fence instance;
  return instance;
}

class FencedArena final : public Arena {
 public:
  explicit FencedArena(Bytes size) : size_(size), bytes_(static_cast<std::size_t>(size.count)) {
    const std::lock_guard lock(fence().mutex);
    const int rights = fence().open > 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
    void* memory = mmap(nullptr, bytes_, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<std::byte*>(memory);
    fence().ranges.push_back({data_, bytes_});
  }
  ~FencedArena() override {
    const std::lock_guard lock(fence().mutex);
    std::erase_if(fence().ranges, [&](const Range& range) { return range.data == data_; });
    munmap(data_, bytes_);
  }
  FencedArena(const FencedArena&) = delete;
  FencedArena& operator=(const FencedArena&) = delete;

  std::byte* data() const override { return data_; }
  Bytes size() const override { return size_; }

 private:
  Bytes size_;
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace

OpenFence::OpenFence() {
  const std::lock_guard lock(fence().mutex);
  if (fence().open++ == 0) fence().protect(PROT_READ | PROT_WRITE);
}

OpenFence::~OpenFence() {
  const std::lock_guard lock(fence().mutex);
  if (--fence().open == 0) fence().protect(PROT_NONE);
}

std::unique_ptr<Arena> FencedMemory::allocate(Bytes size) {
  return std::make_unique<FencedArena>(size);
}

void FencedMemory::copy_in(std::byte* to, std::span<const std::byte> from) {
  const OpenFence open;
  std::memcpy(to, from.data(), from.size());
}

void FencedMemory::copy_out(std::span<std::byte> to, const std::byte* from) {
  const OpenFence open;
  std::memcpy(to.data(), from, to.size());
}

void FencedMemory::copy(std::byte* to, std::span<const std::byte> from) {
  const OpenFence open;
  std::memmove(to, from.data(), from.size());
}

}  // namespace shardscope::test
