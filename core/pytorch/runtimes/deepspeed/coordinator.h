// PartitionedParameterCoordinator: when stage 3 gathers, prefetches and releases parameters.
// Source: deepspeed 0.19.8, runtime/zero/partitioned_param_coordinator.py.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "core/pytorch/runtimes/deepspeed/partitioned_parameters.h"

namespace shardscope::eager::deepspeed {

/// A module as the coordinator sees it.
struct FetchedModule {
  int id = 0;  ///< ds_id, in the order in which hooks were put
  const Module* module = nullptr;
  ParameterIndices parameters;  ///< its own
};

class Coordinator {
 public:
  Coordinator(const Setup& setup, PartitionedParameters& parameters, const ProcessGroup& world);

  TraceMode trace() const { return trace_; }
  /// Before the root's forward.
  void reset_step();
  /// Before a module's forward or backward: gathers what it needs, prefetches, waits.
  void fetch(const FetchedModule& module, bool forward);
  /// After it: lets go of what nobody needs soon.
  void release(const FetchedModule& module, bool forward);
  /// After the backward: of modules whose inputs need no gradient.
  void release_leftovers();
  /// Before the optimizer's step: every parameter is partitioned.
  void release_all();

 private:
  struct Use {
    std::size_t parameter = 0;
    std::int64_t step = 0;  ///< step_id_last_used_at
  };
  static constexpr std::int64_t never = -10'000'000'000;

  void prologue(const FetchedModule& module);
  void clean_inflight();
  void same_on_all_ranks(std::int64_t numbers);
  void wait_for(const FetchedModule& module, bool forward);
  ParameterIndices with_recomputed(const FetchedModule& module);
  void prefetch(const FetchedModule& module);
  void gather(const ParameterIndices& parameters);
  void release(std::size_t parameter);
  ParameterIndices releasable(const FetchedModule& module) const;

  const Setup& setup_;
  PartitionedParameters& parameters_;
  const ProcessGroup& world_;
  StreamId stream_;  ///< of all-gathers
  TraceMode trace_ = TraceMode::invalid;
  std::int64_t step_ = 0;
  std::vector<const FetchedModule*> module_order_;
  std::vector<Use> parameter_order_;
  std::deque<Use> queue_;
  std::vector<std::int64_t> fetched_for_;  ///< by parameter: the latest step it was fetched for
  std::int64_t available_elements_ = 0;
  std::map<std::size_t, std::shared_ptr<GatherHandle>> inflight_;
  std::vector<const FetchedModule*> in_backward_;
  /// ds_recompute_parameters, by ds_id: what checkpoints gathered inside the module's backward.
  std::map<int, std::set<std::size_t>> recomputed_;
  std::deque<EventId> fetch_events_;
};

}  // namespace shardscope::eager::deepspeed
