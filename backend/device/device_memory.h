// The memory that a device's kernels work on.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "backend/comm/communicator.h"
#include "core/base/quantities.h"

namespace shardscope {

/// Addresses of an arena are the device's. Calls are queued behind the kernels that were run
/// before. Errors have ExitCode::outside, or ExitCode::no where there is too little.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  /// The host may use the addresses, too.
  virtual bool is_host() const = 0;
  /// Zeroed, at least 256-byte aligned.
  virtual std::unique_ptr<Arena> allocate(Bytes size) = 0;
  /// The host's memory, from which the device copies; zeroed. Beside a device that works on the
  /// host's memory itself it lies in a file in `folder`, so that pages may leave; empty: in none.
  virtual std::unique_ptr<Arena> allocate_host(Bytes size, const std::filesystem::path& folder);
  /// `from` may be used again when this returns.
  virtual void copy_in(std::byte* to, std::span<const std::byte> from) = 0;
  /// Waits for all that was queued.
  virtual void copy_out(std::span<std::byte> to, const std::byte* from) = 0;
  /// Within the device, or to and from what allocate_host gave; may overlap.
  virtual void copy(std::byte* to, std::span<const std::byte> from) = 0;
  /// Waits until all that was queued has ended.
  virtual void wait() = 0;
  /// What all processes hold of it now, their contexts included; nothing of the host's.
  virtual std::optional<Bytes> in_use() const { return {}; }
};

/// The host's own: private pages, copied at once.
DeviceMemory& host_memory();

}  // namespace shardscope
