#include "tests/backend/cuda/device_copies.h"

#include <algorithm>

namespace shardscope::test {

std::byte* DeviceCopies::copy(std::span<std::byte> host) {
  if (memory_.is_host()) return host.data();
  const auto bytes = static_cast<std::int64_t>(std::max<std::size_t>(1, host.size()));
  copies_.push_back({host, memory_.allocate({bytes})});
  memory_.copy_in(copies_.back().device->data(), host);
  return copies_.back().device->data();
}

void DeviceCopies::copy_back() {
  for (const Copy& copy : copies_) memory_.copy_out(copy.host, copy.device->data());
}

}  // namespace shardscope::test
