// Memory that stands in for a device's: the host may not touch it but through copies and, while
// they run, the emulated kernels. A host access ends the process.
#pragma once

#include "backend/device/device_memory.h"

namespace shardscope::test {

class FencedMemory final : public DeviceMemory {
 public:
  bool is_host() const override { return false; }
  std::unique_ptr<Arena> allocate(Bytes size) override;
  void copy_in(std::byte* to, std::span<const std::byte> from) override;
  void copy_out(std::span<std::byte> to, const std::byte* from) override;
  void copy(std::byte* to, std::span<const std::byte> from) override;
  void wait() override {}
};

/// While one lives, fenced memory may be touched.
class OpenFence {
 public:
  OpenFence();
  ~OpenFence();
  OpenFence(const OpenFence&) = delete;
  OpenFence& operator=(const OpenFence&) = delete;
};

}  // namespace shardscope::test
