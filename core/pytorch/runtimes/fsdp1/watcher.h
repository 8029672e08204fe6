// What FSDP1's own code does, told to whoever watches: the places that its recordings name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/pytorch/engine/session.h"

namespace shardscope::eager::fsdp1 {

class FlatHandle;
struct Streams;
struct Unit;

/// A function of torch/distributed/fsdp that is running.
enum class Site : std::uint8_t {
  lazy_init,
  root_pre_forward,
  pre_forward,
  post_forward,
  pre_backward,
  post_backward,
  post_backward_reshard_only,
  reduce_gradient,
  final_callback,
  catch_all_reshard,
  forward_prefetch,
  backward_prefetch,
  unshard,
  reshard,
  sync_module_states,
  full_pre_state_dict,
  full_post_state_dict,
  local_pre_state_dict,
  local_post_state_dict,
  sharded_pre_state_dict,
  sharded_post_state_dict,
  full_pre_load_state_dict,
  full_post_load_state_dict,
  local_pre_load_state_dict,
  local_post_load_state_dict,
  sharded_pre_load_state_dict,
  sharded_post_load_state_dict,
  convert_state_with_original_parameters,
  convert_state_with_flat_parameters,
  gather_all_original_parameter_state,
  all_gather_state_info,
  all_gather_original_parameter_states
};

struct Visit {
  Site site;
  const Unit* unit = nullptr;    ///< null: of no unit
  const Unit* target = nullptr;  ///< of a prefetch: the unit that is asked for
  bool frees = false;            ///< of a reshard: whether it asks for the unsharded memory
};

/// All empty: override what matters.
class Watcher {
 public:
  virtual ~Watcher() = default;

  virtual void on_enter(Session&, const Visit&) {}
  virtual void on_leave(Session&, const Visit&) {}
  virtual void on_streams(Session&, const Streams&) {}
  virtual void on_device_synchronize(Session&) {}
  virtual void on_stream_synchronize(Session&, StreamId) {}
  virtual void on_limiter_enqueue(Session&, EventId, std::size_t /*length after*/) {}
  virtual void on_limiter_dequeue(Session&, std::optional<EventId>, std::size_t /*length before*/) {
  }
  /// The flat parameter was cast or moved for the all-gather that follows.
  virtual void on_pre_unshard(Session&, const Unit&, const Tensor& /*flat parameter*/) {}
  /// About to be let go.
  virtual void on_low_precision_shard_freed(Session&, const Unit&) {}
  virtual void on_record_stream(Session&, const Tensor&, StreamId) {}
  virtual void on_division(Session&, const Tensor& /*divided*/, double /*by*/) {}
  /// A reduced gradient is about to be cast to the parameter's dtype.
  virtual void on_gradient_cast(Session&, const Tensor& /*reduced*/, Dtype /*to*/) {}
  /// A reduced gradient is about to be added to the one of earlier micro-batches.
  virtual void on_accumulation(Session&, const Unit&, const Tensor& /*reduced*/) {}
};

}  // namespace shardscope::eager::fsdp1
