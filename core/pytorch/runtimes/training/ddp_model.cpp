#include "core/pytorch/runtimes/training/ddp_model.h"

#include <utility>

namespace shardscope::eager {

DdpModel::DdpModel(Session& s, std::shared_ptr<Module> module, const ProcessGroup& group,
                   ddp::Options options)
    : ddp_(s, std::move(module), group, std::move(options)) {}

std::shared_ptr<void> DdpModel::without_sync(Session&) {
  return std::make_shared<ddp::DistributedDataParallel::NoSync>(ddp_);
}

}  // namespace shardscope::eager
