// A model under DistributedDataParallel.
#pragma once

#include <memory>

#include "core/pytorch/runtimes/ddp/distributed_data_parallel.h"
#include "core/pytorch/runtimes/training/parallel_model.h"

namespace shardscope::eager {

class DdpModel final : public ParallelModel {
 public:
  /// `group` must outlive the model.
  DdpModel(Session& s, std::shared_ptr<Module> module, const ProcessGroup& group,
           ddp::Options options);

  Module& module() override { return *ddp_.module(); }
  std::shared_ptr<void> without_sync(Session& s) override;

 private:
  ddp::DistributedDataParallel ddp_;
};

}  // namespace shardscope::eager
