// What DistributedDataParallel's own code does, told to whoever watches.
#pragma once

#include <cstdint>

#include "core/pytorch/engine/session.h"

namespace shardscope::eager::ddp {

/// A function of DistributedDataParallel or its reducer that is running.
enum class Site : std::uint8_t {
  verify_param_shapes,
  sync_module_states,
  sync_buffers,
  rebuild_buckets
};

/// All empty: override what matters.
class Watcher {
 public:
  virtual ~Watcher() = default;

  virtual void on_enter(Session&, Site) {}
  virtual void on_leave(Session&, Site) {}
  virtual void on_buckets_rebuilt(Session&) {}
  /// A bucket's reduction is issued, whether by a collective or by a communication hook.
  virtual void on_bucket_reduced(Session&, std::size_t /*index*/, const Tensor& /*gradients*/) {}
};

}  // namespace shardscope::eager::ddp
