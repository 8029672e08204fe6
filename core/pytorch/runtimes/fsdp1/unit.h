// A FullyShardedDataParallel instance, and what the instances of a model share.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/plans/fsdp1.h"
#include "core/pytorch/runtimes/common/process_group.h"
#include "core/pytorch/runtimes/common/visit_scope.h"
#include "core/pytorch/runtimes/fsdp1/execution_order.h"
#include "core/pytorch/runtimes/fsdp1/rate_limiter.h"
#include "core/pytorch/runtimes/fsdp1/settings.h"
#include "core/pytorch/runtimes/fsdp1/watcher.h"

namespace shardscope::eager::fsdp1 {

class FlatHandle;
struct Unit;

/// The class of a unit's wrapper module.
inline constexpr std::string_view wrapper_class = "FullyShardedDataParallel";
inline constexpr const char* flat_parameter_attribute = "_flat_param";

struct Streams {
  StreamId compute, unshard, post_backward, pre_unshard;
  StreamId all_reduce;  ///< the compute stream where no unit is hybrid
  int priority = 0;     ///< of all but the compute and the all-reduce stream
  bool operator==(const Streams&) const = default;
};

/// What the root shares with all units: of _FSDPState, and beside it.
struct Shared {
  Options options;
  std::vector<Watcher*> watchers;
  std::vector<Unit*> units = {};  ///< in pre-order, the root first
  Streams streams = {};
  RateLimiter limiter = {};
  ExecutionOrder order = {};
  Tensor zero = {};             ///< _zero_scalar of the root
  Tensors synced_buffers = {};  ///< sent by sync_module_states
  bool lazily_initialized = false;
  bool final_callback_queued = false;
  /// The model's buffers and their dtypes as they were given.
  struct Buffer {
    std::string name;
    Tensor tensor;
    Dtype dtype;
  };
  std::vector<Buffer> buffers = {};
  /// After forwards in full precision the buffers go back to their low one.
  bool buffers_may_be_in_full_precision = false;

  template <class F>
  void tell(F&& call) const {
    for (Watcher* watcher : watchers) call(*watcher);
  }
};

/// _FSDPState.
struct Unit {
  Shared& shared;
  const Fsdp1Unit& plan;
  Precision precision;                 ///< of this unit: a policy may switch it off
  Module* wrapper = nullptr;           ///< the FullyShardedDataParallel module
  const ProcessGroup& group;           ///< over which it shards
  const ProcessGroup* replicas;        ///< over which hybrid strategies reduce; null: none
  double divide_before = 1;            ///< _gradient_predivide_factor
  double divide_after = 1;             ///< _gradient_postdivide_factor
  bool sync_gradients = true;          ///< false in no_sync()
  std::unique_ptr<FlatHandle> handle;  ///< null: it has no parameters of its own

  ~Unit();

  bool is_root() const { return shared.units.front() == this; }
  bool is_hybrid() const { return shardscope::is_hybrid(plan.strategy); }
};

/// Tells the watchers that a function of the library runs.
class Visiting : public VisitScope<Watcher, Visit> {
 public:
  Visiting(Session& s, const Shared& shared, Visit visit)
      : VisitScope(s, shared.watchers, visit, visit.unit ? &visit.unit->plan.module : nullptr) {}
  Visiting(Session& s, const Unit& unit, Site site)
      : VisitScope(s, unit.shared.watchers, {.site = site, .unit = &unit}, &unit.plan.module) {}
};

/// _no_dispatch_record_stream.
void record_stream(Session& s, const Shared& shared, const Tensor& tensor, StreamId stream);
/// device_handle.synchronize().
void synchronize_device(Session& s, const Shared& shared);

}  // namespace shardscope::eager::fsdp1
