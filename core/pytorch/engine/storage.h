// The memory under tensors: bytes on a device, freed with the last tensor that views it.
#pragma once

#include <cstdint>

#include "core/base/quantities.h"
#include "core/pytorch/engine/reference.h"
#include "core/schedule/schedule.h"

namespace shardscope::eager {

class Session;

enum class Device : std::uint8_t { cpu, cuda, meta };

struct StreamTag;
/// A stream of the device; 0 is the default one, on which models compute.
using StreamId = Id<StreamTag>;
inline constexpr StreamId default_stream{0};

/// Whose memory this is, for observers and reports; the engine does not read it.
struct StorageTag {
  /// As a runtime says that knows it: what becomes .grad, what is gathered; temporaries: nobody
  /// said.
  MemoryCategory category = MemoryCategory::temporaries;
  std::int32_t owner = -1;  ///< unit or module, as who sets it numbers them
  std::int32_t other = -1;  ///< another tool's category, as who sets it numbers them
  bool operator==(const StorageTag&) const = default;
};

/// As c10::StorageImpl. `bytes` are as requested, not rounded.
class StorageImpl : public Counted {
 public:
  struct Request {
    Bytes bytes;
    Device device = Device::cuda;
    StreamId stream = default_stream;  ///< current when it is allocated
    bool pinned = false;               ///< page-locked, of the cpu
  };
  /// Tells the session's observers that it was allocated.
  static Ref<StorageImpl> allocate(Session& s, const Request& request);

  std::uint64_t id() const { return id_; }  ///< dense, in order of allocation
  Bytes bytes() const { return bytes_; }
  Device device() const { return device_; }
  StreamId stream() const { return stream_; }
  bool pinned() const { return pinned_; }
  /// Once: where allocate() has not.
  void tell_allocated();
  /// torch.UntypedStorage.resize_: FSDP1 frees with 0. Observers see a free and an allocation.
  void resize(Bytes bytes);

  StorageTag tag;

 private:
  friend class Ref<StorageImpl>;
  StorageImpl(Session& s, const Request& request);
  ~StorageImpl() = default;
  void release_last();

  Session* session_;
  std::uint64_t id_;
  Bytes bytes_;
  Device device_;
  StreamId stream_;
  bool pinned_;
  bool told_ = false;
};

using Storage = Ref<StorageImpl>;

}  // namespace shardscope::eager
