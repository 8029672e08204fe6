#include "backend/comm/private_arena.h"

#include "backend/base/memory_mapping.h"

namespace shardscope {
namespace {

class PrivateArena final : public Arena {
 public:
  explicit PrivateArena(Bytes size) : pages_(MemoryMapping::anonymous(size)), size_(size) {
    pages_.prefer_huge_pages();
  }
  std::byte* data() const override { return pages_.data(); }
  Bytes size() const override { return size_; }

 private:
  MemoryMapping pages_;
  Bytes size_;
};

}  // namespace

std::unique_ptr<Arena> make_private_arena(Bytes size) {
  return std::make_unique<PrivateArena>(size);
}

}  // namespace shardscope
