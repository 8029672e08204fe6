// DistributedDataParallel's reducer: gradients put into buckets and reduced as they become ready.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/pytorch/engine/autograd.h"
#include "core/pytorch/plans/ddp_buckets.h"
#include "core/pytorch/runtimes/common/process_group.h"
#include "core/pytorch/runtimes/ddp/watcher.h"

namespace shardscope::eager::ddp {

/// c10d::Reducer of torch 2.15, torch/csrc/distributed/c10d/reducer.cpp: dense gradients.
class Reducer {
 public:
  /// What is done with a full bucket in the place of its all-reduce.
  using CommunicationHook = std::function<void(Session&, const Tensor& gradients)>;

  struct Settings {
    const ProcessGroup* group = nullptr;
    DdpOptions options;
    bool gradient_as_bucket_view = false;
  };
  struct Bucket {
    Tensor gradients;  ///< flat
    Tensors views;     ///< one for each variable
    std::vector<std::size_t> variables;
    std::size_t pending = 0;  ///< gradients to come before it can be reduced
    WorkId reduced;           ///< none: by a communication hook
  };

  /// Makes the first buckets and hooks into each parameter's AccumulateGrad.
  Reducer(Session& s, Tensors parameters, const Settings& settings);
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;
  ~Reducer();

  const std::vector<Bucket>& buckets() const { return buckets_; }
  bool has_rebuilt_buckets() const { return has_rebuilt_; }
  /// Of the last backward.
  const std::vector<std::size_t>& grad_ready_order() const { return ready_order_; }
  /// Found unused in the last backward, or in the first of a static graph.
  const std::vector<std::size_t>& unused() const { return unused_; }
  /// In the last backward, as they filled up.
  std::size_t buckets_reduced() const { return next_bucket_; }
  void set_communication_hook(CommunicationHook hook) { communication_hook_ = std::move(hook); }
  /// Not owned.
  void watch(Watcher& watcher) { watchers_.push_back(&watcher); }

  void prepare_for_forward() { ++iterations_; }
  /// Throws Refusal if the backward before has not reduced every bucket.
  bool rebuild_buckets();
  /// `outputs`: of the forward, where unused parameters are to be found.
  void prepare_for_backward(const Tensors& outputs);
  /// The first backward of a static graph reduces everything at its end.
  void delay_all_reduce();

 private:
  /// One a parameter of the bucket.
  Tensors views_of(const Bucket& bucket);
  void make_buckets(const std::vector<std::vector<std::size_t>>& assignment);
  void on_gradient(std::size_t variable);
  void mark_ready(std::size_t variable);
  void copy_into_bucket(std::size_t variable);
  void reduce_ready_buckets();
  void reduce_bucket(std::size_t index);
  void reduce_used_map();
  Tensor used_entry(std::size_t variable);
  void find_unused(const Tensors& outputs);
  void finalize_backward();
  void finalize_bucket(const Bucket& bucket);
  bool is_globally_unused(std::size_t variable);
  void broadcast_assignment(const std::vector<std::vector<std::size_t>>& assignment);
  bool finds_unused() const { return options().find_unused_parameters && !options().static_graph; }
  bool is_static_first() const { return options().static_graph && iterations_ == 1; }
  bool should_rebuild() const {
    return (options().static_graph || !options().find_unused_parameters) && !has_rebuilt_;
  }
  const DdpOptions& options() const { return settings_.options; }

  Session& s_;
  Tensors parameters_;
  Settings settings_;
  CommunicationHook communication_hook_;
  std::vector<Watcher*> watchers_;
  std::vector<NodeRef> accumulators_;
  std::vector<HookHandle> hooks_;

  std::vector<Bucket> buckets_;
  std::vector<std::pair<std::size_t, std::size_t>> place_;  ///< by variable: bucket, index in it
  std::size_t next_bucket_ = 0;
  bool expects_hooks_ = false;
  bool requires_finalize_ = false;
  bool has_rebuilt_ = false;
  bool has_marked_unused_ = false;
  int iterations_ = 0;
  std::vector<std::size_t> unused_;
  std::vector<std::size_t> rebuilt_order_;
  std::vector<std::size_t> ready_order_;
  std::vector<int> triggers_, triggers_left_;  ///< by variable, of a static graph
  std::vector<bool> used_;                     ///< local_used_map_
  Tensor host_used_map_;                       ///< the same as a tensor
  Tensor used_map_;                            ///< local_used_map_dev_
  WorkId used_map_sum_;                        ///< behind its all-reduce
  bool used_map_reduced_ = false;
};

}  // namespace shardscope::eager::ddp
