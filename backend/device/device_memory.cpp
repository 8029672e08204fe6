#include "backend/device/device_memory.h"

#include <cstring>

#include "backend/comm/private_arena.h"

namespace shardscope {
namespace {

void move(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to != from && bytes > 0) std::memmove(to, from, bytes);
}

class HostMemory final : public DeviceMemory {
 public:
  bool is_host() const override { return true; }
  std::unique_ptr<Arena> allocate(Bytes size) override { return make_private_arena(size); }
  std::unique_ptr<Arena> allocate_host(Bytes size, const std::filesystem::path& folder) override {
    return folder.empty() ? make_private_arena(size) : make_file_arena(size, folder);
  }
  void copy_in(std::byte* to, std::span<const std::byte> from) override {
    move(to, from.data(), from.size());
  }
  void copy_out(std::span<std::byte> to, const std::byte* from) override {
    move(to.data(), from, to.size());
  }
  void copy(std::byte* to, std::span<const std::byte> from) override {
    move(to, from.data(), from.size());
  }
  void wait() override {}
};

}  // namespace

std::unique_ptr<Arena> DeviceMemory::allocate_host(Bytes size, const std::filesystem::path&) {
  return make_private_arena(size);
}

DeviceMemory& host_memory() {
  static HostMemory memory;
  return memory;
}

}  // namespace shardscope
