#include "core/pytorch/runtimes/training/parallel_model.h"

#include "core/pytorch/runtimes/common/clip_grad_norm.h"
#include "core/pytorch/runtimes/fsdp1/clip.h"
#include "core/pytorch/runtimes/fsdp2/clip_grad_norm.h"

namespace shardscope::eager {
namespace {

Tensors parameters_of(Module& root) {
  Tensors parameters;
  for (const NamedParameter& p : named_parameters_of(root)) parameters.push_back(p.tensor());
  return parameters;
}

class PlainModel final : public ParallelModel {
 public:
  explicit PlainModel(std::shared_ptr<Module> module) : module_(std::move(module)) {}

  Module& module() override { return *module_; }
  Tensors parameters() override { return parameters_of(*module_); }
  std::shared_ptr<void> without_sync(Session&) override { return nullptr; }

 private:
  std::shared_ptr<Module> module_;
};

class DdpModel final : public ParallelModel {
 public:
  DdpModel(Session& s, std::shared_ptr<Module> module, const ProcessGroup& group,
           ddp::Options options)
      : ddp_(s, std::move(module), group, std::move(options)) {}

  Module& module() override { return *ddp_.module(); }
  Tensors parameters() override { return parameters_of(*ddp_.module()); }
  std::shared_ptr<void> without_sync(Session&) override {
    return std::make_shared<ddp::DistributedDataParallel::NoSync>(ddp_);
  }

 private:
  ddp::DistributedDataParallel ddp_;
};

class Fsdp1Model final : public ParallelModel {
 public:
  Fsdp1Model(Session& s, fsdp1::FullySharded::Input input)
      : world_(input.groups.world), model_(s, std::move(input)) {}

  Module& module() override { return model_.module(); }
  Tensors parameters() override { return model_.parameters(); }
  std::shared_ptr<void> without_sync(Session& s) override {
    model_.begin_no_sync(s);
    return {nullptr, [this](void*) { model_.end_no_sync(); }};
  }
  void clip(Session& s) override { fsdp1::clip_grad_norm(s, model_); }
  InfinitySharing infinity_sharing() override { return {.of_result = world_}; }
  fsdp1::FullySharded* flattened() override { return &model_; }

 private:
  const ProcessGroup* world_;
  fsdp1::FullySharded model_;
};

class Fsdp2Model final : public ParallelModel {
 public:
  Fsdp2Model(Session& s, std::shared_ptr<Module> module, ProcessGroups& groups,
             const std::vector<int>& mesh, std::vector<FullyShardStep> calls)
      : module_(std::move(module)), sharded_(s, groups) {
    mesh_ = sharded_.mesh(mesh);
    for (FullyShardStep& call : calls) {
      call.options.mesh = mesh_;
      sharded_.fully_shard(call.modules, call.options);
    }
  }

  Module& module() override { return *module_; }
  Tensors parameters() override { return parameters_of(*module_); }
  std::shared_ptr<void> without_sync(Session&) override {
    sharded_.set_requires_gradient_sync(*module_, false);
    return {nullptr, [this](void*) { sharded_.set_requires_gradient_sync(*module_, true); }};
  }
  void clip(Session& s) override { fsdp2::clip_grad_norm(s, parameters(), *mesh_->shard); }
  InfinitySharing infinity_sharing() override { return {.of_each_check = mesh_->shard}; }
  fsdp2::FullySharded* fully_sharded() override { return &sharded_; }

 private:
  std::shared_ptr<Module> module_;
  fsdp2::FullySharded sharded_;
  fsdp2::MeshInfoRef mesh_;
};

class DeepSpeedModel final : public ParallelModel {
 public:
  DeepSpeedModel(Session& s, std::shared_ptr<Module> module, ProcessGroups& groups,
                 const DeepSpeedSettings& settings, const OptimizerSettings& optimizer)
      : module_(std::move(module)),
        engine_(s, groups, {.model = *module_, .settings = settings, .optimizer = optimizer}) {}

  Module& module() override { return *module_; }
  Tensors parameters() override { return {}; }
  std::shared_ptr<void> without_sync(Session&) override { return nullptr; }
  deepspeed::Engine* engine() override { return &engine_; }

 private:
  std::shared_ptr<Module> module_;
  deepspeed::Engine engine_;
};

}  // namespace

void ParallelModel::clip(Session& s) { clip_grad_norm(s, parameters()); }

std::unique_ptr<ParallelModel> plain_model(std::shared_ptr<Module> module) {
  return std::make_unique<PlainModel>(std::move(module));
}

std::unique_ptr<ParallelModel> ddp_model(Session& s, std::shared_ptr<Module> module,
                                         const ProcessGroup& group, ddp::Options options) {
  return std::make_unique<DdpModel>(s, std::move(module), group, std::move(options));
}

std::unique_ptr<ParallelModel> fsdp1_model(Session& s, fsdp1::FullySharded::Input input) {
  return std::make_unique<Fsdp1Model>(s, std::move(input));
}

std::unique_ptr<ParallelModel> fsdp2_model(Session& s, std::shared_ptr<Module> module,
                                           ProcessGroups& groups, const std::vector<int>& mesh,
                                           std::vector<FullyShardStep> calls) {
  return std::make_unique<Fsdp2Model>(s, std::move(module), groups, mesh, std::move(calls));
}

std::unique_ptr<ParallelModel> deepspeed_model(Session& s, std::shared_ptr<Module> module,
                                               ProcessGroups& groups,
                                               const DeepSpeedSettings& settings,
                                               const OptimizerSettings& optimizer) {
  return std::make_unique<DeepSpeedModel>(s, std::move(module), groups, settings, optimizer);
}

}  // namespace shardscope::eager
