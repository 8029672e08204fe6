#include "core/pytorch/runtimes/training/tensor_model.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/runtimes/common/clip_grad_norm.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/common/to_empty.h"

namespace shardscope::eager {
namespace {

std::vector<FullyShardStep> steps_of(const Fsdp2Setup& setup, Module& root,
                                     const parallel::TensorParallel& tensor) {
  std::map<std::string, Module*> modules;
  for (Module* module : modules_of(root)) modules.emplace(module->name, module);
  std::vector<FullyShardStep> steps;
  for (const Fsdp2Setup::Call& call : setup.calls) {
    FullyShardStep step;
    step.options.mixed_precision = setup.mixed_precision;
    step.options.reshard_after_forward = call.reshard_after_forward;
    for (const std::string& name : call.modules) step.modules.push_back(modules.at(name));
    step.options.gradient_rule = [&tensor, of = step.modules](const Tensor& parameter) {
      return tensor.gradient_rule(of, parameter);
    };
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace

TensorModel::TensorModel(Session& s, std::shared_ptr<Module> module, ProcessGroups& groups,
                         const TensorSetup& setup, const Fsdp2Setup* sharding)
    : s_(s), module_(std::move(module)), world_(groups.world()) {
  s.observe(pending_);
  std::vector<int> shape = sharding ? sharding->mesh : std::vector<int>{};
  shape.push_back(setup.ranks);
  const std::vector<const ProcessGroup*> axes = groups.mesh(shape);
  tensor_ = std::make_unique<parallel::TensorParallel>(
      s, parallel::MeshAxisContext{.group = axes.back(), .pending = &pending_}, *module_,
      setup.plan);
  const NoGrad no_grad(s);
  if (sharding) {
    shards_ = axes[axes.size() - 2];
    replicates_ = axes.size() > 2;
    auto mesh = std::make_shared<fsdp2::MeshInfo>();
    mesh->shard = shards_;
    if (replicates_) mesh->replicate = axes.front();
    const auto tied = parallel::tied_parameters(*module_);
    sharded_ = std::make_unique<Fsdp2Model>(s, module_, groups, std::move(mesh),
                                            steps_of(*sharding, *module_, *tensor_));
    // Of a tied head the root's unit has a parameter of its own, which takes this shard over.
    parallel::tie_parameters(tied);
  }
  // As DTensors: nothing is replaced, so that what is tied stays tied.
  to_empty(s, *module_, true);
  if (sharded_)
    sharded_->sharded().reset_sharded_params();
  else
    average_gradients();
}

/// Trainer._sync_replicated_trainable_parameters.
void TensorModel::average_gradients() {
  for (const NamedParameter& parameter : named_parameters_of(*module_)) {
    if (!parameter.tensor().requires_grad() || tensor_->layout_of(parameter)) continue;
    broadcast(s_, world_, parameter.tensor(), 0);
    register_post_accumulate_grad_hook(s_, parameter.tensor(),
                                       [this](Session& s, const Tensor& leaf) {
                                         if (syncs_) all_reduce(s, world_, leaf.grad(), "avg");
                                       });
  }
}

/// Of FSDP2's, Trainer._defer_fsdp_gradient_reduction: with replicas only their sum is left out.
std::shared_ptr<void> TensorModel::without_sync(Session& s) {
  if (sharded_ && !replicates_) return sharded_->without_sync(s);
  if (sharded_) sharded_->sharded().set_requires_all_reduce(*module_, false);
  syncs_ = false;
  return {nullptr, [this](void*) {
            syncs_ = true;
            if (sharded_) sharded_->sharded().set_requires_gradient_sync(*module_, true);
          }};
}

/// get_total_norm of gradients on one mesh: a vector of their norms is summed over each of its
/// axes that divides them.
Tensor TensorModel::norm_of(Session& s, const Tensors& gradients, bool divided) const {
  Tensors each = gradient_norms(s, gradients);
  Tensor norms = stack(s, each);
  each.clear();
  const auto sum = [&](const ProcessGroup* group) {
    if (!group || group->size() == 1) return;
    Tensor powers = pow(s, norms, Number(2.0));
    const Tensor total = functional_all_reduce(s, *group, powers, "sum");
    wait_tensor(s, total);
    norms = pow(s, total, Number(0.5));
  };
  sum(shards_);
  if (divided) sum(tensor_->axis().group);
  return vector_norm(s, norms);
}

void TensorModel::clip(Session& s) {
  const NoGrad no_grad(s);
  struct OfMesh {
    bool divided;
    Tensors gradients;
  };
  std::vector<OfMesh> meshes;  // in the order in which parameters name them
  for (const NamedParameter& parameter : named_parameters_of(*module_)) {
    if (!parameter.tensor().grad().defined()) continue;
    const bool divided = tensor_->layout_of(parameter) != nullptr;
    auto found = std::ranges::find(meshes, divided, &OfMesh::divided);
    if (found == meshes.end()) found = meshes.insert(meshes.end(), {divided, {}});
    found->gradients.push_back(parameter.tensor().grad());
  }
  Tensors norms;
  for (const OfMesh& mesh : meshes) norms.push_back(norm_of(s, mesh.gradients, mesh.divided));
  const Tensor total = vector_norm(s, stack(s, norms));
  for (const OfMesh& mesh : meshes) clip_with_norm(s, mesh.gradients, total);
}

Tensor TensorModel::read_gradient(Session& s, const Tensor& parameter,
                                  const Tensor& gradient) const {
  return sharded_ ? gradient : tensor_->read_gradient(s, parameter, gradient);
}

NamedTensors TensorModel::full_state_dict(Session&, const FullStateDict&) {
  throw Error({.where = "--phases",
               .what = "saving a model that is divided over an axis tensor is not predicted",
               .way_out = "leave --phases out, or tensor out of --mesh"});
}

}  // namespace shardscope::eager
