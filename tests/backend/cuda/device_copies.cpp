#include "tests/backend/cuda/device_copies.h"

#include <algorithm>

namespace shardscope::test {

DeviceCopies::~DeviceCopies() {
  for (const Copy& copy : copies_) device_.free(copy.device);
}

std::byte* DeviceCopies::copy(std::span<std::byte> host) {
  const auto bytes = static_cast<std::int64_t>(std::max<std::size_t>(1, host.size()));
  copies_.push_back({host, device_.allocate({bytes})});
  device_.copy_in(copies_.back().device, host);
  return static_cast<std::byte*>(copies_.back().device);
}

void DeviceCopies::copy_back() {
  for (const Copy& copy : copies_) device_.copy_out(copy.host, copy.device);
}

}  // namespace shardscope::test
