// torch.nn.parallel.DistributedDataParallel.
#pragma once

#include <memory>
#include <vector>

#include "core/pytorch/engine/module.h"
#include "core/pytorch/runtimes/ddp/reducer.h"

namespace shardscope::eager::ddp {

/// Arguments of DistributedDataParallel.
struct Options {
  DdpOptions buckets;
  bool gradient_as_bucket_view = false;
  bool broadcast_buffers = true;
  bool init_sync = true;
  /// A communication hook in the place of the all-reduces.
  Reducer::CommunicationHook communication_hook = {};
  std::vector<Watcher*> watchers = {};  ///< not owned; told of the construction as well
};

/// DistributedDataParallel of torch 2.15, torch/nn/parallel/distributed.py. It must outlive the
/// model's forwards and backwards.
class DistributedDataParallel {
 public:
  /// Throws Refusal if there is nothing to train.
  DistributedDataParallel(Session& s, std::shared_ptr<Module> module, const ProcessGroup& group,
                          Options options);
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  /// The wrapper, to be called in the model's place.
  const std::shared_ptr<Module>& module() const { return wrapper_; }
  const Reducer& reducer() const { return *reducer_; }
  /// What a pipeline's stage calls before its last backward, as its forwards ran in no_sync().
  void prepare_for_backward() { reducer_->prepare_for_backward({}); }

  /// The scope of no_sync(): gradients only accumulate.
  class NoSync : public Scoped<bool> {
   public:
    explicit NoSync(DistributedDataParallel& ddp) : Scoped(ddp.requires_sync_, false) {}
  };

 private:
  Tensors forward(const Arguments& arguments);
  void pre_forward();
  Tensors post_forward(const Tensors& outputs);
  Tensors through_sink(const Tensors& outputs);
  void sync_module_states();
  void sync_buffers();

  Session& s_;
  std::shared_ptr<Module> inner_, wrapper_;
  const ProcessGroup& group_;
  Options options_;
  std::unique_ptr<Reducer> reducer_;
  Tensors buffers_;
  bool requires_sync_ = true;          ///< require_backward_grad_sync
  bool requires_forward_sync_ = true;  ///< require_forward_param_sync
  bool delay_enqueued_ = false;        ///< _static_graph_delay_allreduce_enqueued
};

}  // namespace shardscope::eager::ddp
