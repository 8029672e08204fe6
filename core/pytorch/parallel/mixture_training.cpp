#include "core/pytorch/parallel/mixture_training.h"

#include <algorithm>
#include <utility>

#include "core/pytorch/engine/checkpoint.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/clip_grad_norm.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/common/functional.h"
#include "core/pytorch/runtimes/common/to_empty.h"

namespace shardscope::eager::parallel {
namespace {

std::vector<MeshAxis> expert_axes(const MixtureSettings& settings) {
  return {{"dp_replicate", size_of_axis(settings.mesh, "dp_replicate")},
          {"efsdp", size_of_axis(settings.mesh, "dp_shard") / settings.expert_ranks},
          {"ep", settings.expert_ranks}};
}

/// SelectiveAC's policy: what attention and topk return, what goes to the host, and every second
/// product. The router's gate always runs again; torchtitan takes all products of its shape for it,
/// here its name. Each block counts with a copy of its own.
std::function<bool(const Operator&)> kept_operators(Session& s) {
  return [&s, products = 0](const Operator& op) mutable {
    if (op.name == "aten.mm.default") {
      const Module* module = s.current_module();
      if (module != nullptr && module->name.ends_with("router.gate")) return false;
      return ++products % 2 == 1;
    }
    return op.kind == OperatorKind::attention || op.name == "aten.topk.default" ||
           op.name.ends_with(" to the host");
  };
}

}  // namespace

MixtureTraining::MixtureTraining(Session& s, ProcessGroups& groups, const MixtureSettings& settings)
    : s_(s),
      settings_(settings),
      mesh_(groups, settings.mesh),
      expert_mesh_(groups, expert_axes(settings)),
      world_(groups.world()) {
  const bool replicates = mesh_.size("dp_replicate") > 1;
  data_group_ = replicates ? &mesh_.flatten("dp_replicate", "dp_shard") : &mesh_.group("dp_shard");
  if (data_group_->size() == 1) data_group_ = nullptr;
  const ProcessGroup* ranks = has_expert_ranks() ? &expert_mesh_.group("ep") : nullptr;
  model_ = make_mixture(s_, {.shape = settings_.shape,
                             .length = settings_.length,
                             .dtype = settings_.dtype,
                             .ranks = ranks,
                             .load = settings_.load});
  if (settings_.checkpoint != MixtureCheckpoint::none) apply_checkpointing();
  dense_info_ = mesh_info(mesh_, "dp_shard");
  expert_info_ = has_expert_ranks() ? mesh_info(expert_mesh_, "efsdp") : dense_info_;
  if (settings_.shards) {
    sharded_ = std::make_unique<fsdp2::FullySharded>(s_, groups);
    apply_fully_shard();
    if (has_expert_ranks()) prefetch_explicitly();
  }
  to_device();
  optimizer_ = std::make_unique<ParameterOptimizer>(parameters(), settings_.optimizer);
}

fsdp2::MeshInfoRef MixtureTraining::mesh_info(const DeviceMesh& mesh, const char* shard) const {
  auto info = std::make_shared<fsdp2::MeshInfo>();
  info->shard = &mesh.group(shard);
  if (mesh.size("dp_replicate") > 1) info->replicate = &mesh.group("dp_replicate");
  return info;
}

void MixtureTraining::apply_checkpointing() {
  CheckpointOptions options{.early_stop = false};
  if (settings_.checkpoint == MixtureCheckpoint::selective) options.saves = kept_operators(s_);
  for (Module::Child& block : model_->child("layers").children)
    block.module = checkpoint_wrapper(block.module, options);
}

/// apply_fsdp_to_decoder.
void MixtureTraining::apply_fully_shard() {
  const fsdp2::Options options{.mesh = dense_info_,
                               .reshard_after_forward = settings_.reshard_after_forward,
                               .mixed_precision = settings_.mixed_precision};
  fsdp2::Options last = options;
  last.reshard_after_forward = false;
  sharded_->fully_shard({&model_->child("tok_embeddings")}, options);
  sharded_->fully_shard({&model_->child("norm"), &model_->child("lm_head")}, last);
  const int replicas = has_expert_ranks() ? 1 : mesh_.size("dp_replicate");
  const bool cuts_rows = replicas * mesh_.size("dp_shard") > settings_.shape.experts;
  for (const Module::Child& block : model_->child("layers").children) {
    if (!has_moe(*block.module)) {
      sharded_->fully_shard({block.module.get()}, options);
      continue;
    }
    Tensors experts;
    for (const Module::NamedTensor& own : grouped_experts_of(*block.module).parameters)
      experts.push_back(own.tensor);
    const auto is_expert = [&](const Tensor& parameter) {
      return std::any_of(experts.begin(), experts.end(),
                         [&](const Tensor& expert) { return expert.is(parameter); });
    };
    fsdp2::Options of_block = options;
    if (has_expert_ranks())
      of_block.parameter_mesh = [&](const Tensor& parameter) {
        return is_expert(parameter) ? expert_info_ : dense_info_;
      };
    if (cuts_rows)
      of_block.shard_dim = [&](const Tensor& parameter) { return is_expert(parameter) ? 1 : 0; };
    sharded_->fully_shard({block.module.get()}, of_block);
  }
  fsdp2::Options root = options;
  root.reshard_after_forward = {};
  sharded_->fully_shard({model_.get()}, root);
  for (Module* module : modules_of(*model_))
    if (sharded_->state_of(*module)) sharded_->set_gradient_divide_factor(*module, 1.0);
}

/// The host waits in each layer, so that FSDP2's own prefetches would come too late.
void MixtureTraining::prefetch_explicitly() {
  Module& embeddings = model_->child("tok_embeddings");
  Module& norm = model_->child("norm");
  Module& head = model_->child("lm_head");
  Module* before = &embeddings;
  for (const Module::Child& block : model_->child("layers").children) {
    sharded_->set_forward_prefetch(*before, {block.module.get()});
    sharded_->set_backward_prefetch(*block.module, {before});
    before = block.module.get();
  }
  sharded_->set_forward_prefetch(*before, {&norm, &head});
  sharded_->set_backward_prefetch(head, {before});
}

void MixtureTraining::to_device() {
  const NoGrad no_grad(s_);
  to_empty(s_, *model_, true);
  if (sharded_) sharded_->reset_sharded_params();
}

Tensors MixtureTraining::parameters() {
  Tensors all;
  for (const NamedParameter& named : named_parameters_of(*model_)) all.push_back(named.tensor());
  return all;
}

Tensors MixtureTraining::optimizer_states() const {
  Tensors all;
  for (const ParameterOptimizer::State& state : optimizer_->states())
    for (const Tensor& tensor : {state.step, state.first_moment, state.second_moment})
      if (tensor.defined()) all.push_back(tensor);
  return all;
}

/// One number a token, copied from the host.
Tensor MixtureTraining::integers_on_device() {
  const Tensor on_host = allocate(s_, {.dtype = Dtype::int64, .device = Device::cpu},
                                  {settings_.batch, settings_.length});
  return to(s_, on_host, {.device = s_.settings.device});
}

/// create_block_mask, compiled, of causal attention inside documents: numbers and places of partly
/// and fully attended blocks, by queries and by keys, and where each document ends.
void MixtureTraining::make_mask(const Tensor& positions) {
  static constexpr Operator op{"torchtitan.create_attention_mask", OperatorKind::other};
  constexpr std::int64_t block = 128;
  const std::int64_t batch = positions.size(0);
  const std::int64_t blocks = (positions.size(1) + block - 1) / block;
  const Like integers = like(positions, Dtype::int32);
  if (constants_.empty()) constants_.push_back(full(s_, {}, like(positions, Dtype::boolean)));
  mask_.push_back(allocate(s_, integers, positions.sizes()));
  // One sequence: the document of each token, and where each document begins. Several sequences:
  // where each document ends.
  if (batch == 1)
    mask_.push_back(allocate(s_, integers, {(positions.size(1) + block) / block * block}));
  for (int list = 0; list < 4; ++list) {
    mask_.push_back(allocate(s_, integers, {batch, 1, blocks}));
    mask_.push_back(allocate(s_, integers, {batch, 1, blocks, blocks}));
  }
  dispatched(s_, op, Tensors{positions}, mask_);
}

Tensor MixtureTraining::count_of_all_labels() {
  const Tensor on_host = allocate(s_, {.dtype = Dtype::int64, .device = Device::cpu}, {});
  Tensor count = to(s_, on_host, {.device = s_.settings.device});
  if (!data_group_) return count;
  Tensor sum = functional_all_reduce(s_, *data_group_, count, "sum");
  wait_tensor(s_, sum);
  return sum;
}

void MixtureTraining::micro_batch(int number, const Tensor& labels_of_all, const Probe& probe) {
  const Tensor ids = integers_on_device();
  const Tensor positions = integers_on_device();
  batches_.push_back(ids);
  batches_.push_back(positions);
  labels_ = integers_on_device();
  make_mask(positions);
  Tensor loss;
  {
    Tensor hidden = call_one(s_, *model_, {ids, positions});
    probe(Moment::forward, number);
    loss = chunked_loss(
        s_, {.head = model_->child("lm_head"), .sharded = sharded_.get()}, std::move(hidden),
        {.labels = labels_, .positions = positions, .labels_of_all = labels_of_all});
  }
  probe(Moment::loss, number);
  backward(s_, loss);
  mask_.clear();
  loss_ = std::move(loss);
  probe(Moment::backward, number);
}

/// get_total_norm and full_tensor of gradients that are split over the groups' ranks, one after the
/// other.
Tensor MixtureTraining::summed_norm(const Tensors& gradients, const Groups& groups) {
  Tensor norms;
  {
    Tensors each = gradient_norms(s_, gradients);
    norms = stack(s_, each);
  }
  if (groups.empty()) return vector_norm(s_, norms);
  Tensor sum = pow(s_, norms, Number(2.0));
  for (const ProcessGroup* group : groups) {
    Tensor summed = functional_all_reduce(s_, *group, sum, "sum");
    wait_tensor(s_, summed);
    sum = std::move(summed);
  }
  const Tensor roots = pow(s_, sum, Number(0.5));
  sum.reset();
  return vector_norm(s_, roots);
}

MixtureTraining::Groups MixtureTraining::groups_of_shards() const {
  const ProcessGroup& shards = mesh_.group("dp_shard");
  return shards.size() > 1 ? Groups{&shards} : Groups{};
}

/// Beside replicas the mesh of experts is not flattened.
MixtureTraining::Groups MixtureTraining::groups_of_experts() const {
  const ProcessGroup& shards = expert_mesh_.group("efsdp");
  if (mesh_.size("dp_replicate") == 1 || shards.size() == 1) return groups_of_shards();
  return {&shards, &expert_mesh_.group("ep")};
}

/// _clip_grad_norm_with_ep: experts by themselves.
void MixtureTraining::clip() {
  const NoGrad no_grad(s_);
  Tensors of_experts, others;
  for (const Module::Child& block : model_->child("layers").children)
    if (has_moe(*block.module))
      for (const Module::NamedTensor& own : grouped_experts_of(*block.module).parameters)
        of_experts.push_back(own.tensor.grad());
  for (const Tensor& parameter : parameters()) {
    const bool is_expert = std::any_of(of_experts.begin(), of_experts.end(),
                                       [&](const Tensor& g) { return g.is(parameter.grad()); });
    if (!is_expert || !has_expert_ranks()) others.push_back(parameter.grad());
  }
  if (!has_expert_ranks()) {
    const Tensor norm = summed_norm(others, groups_of_shards());
    return clip_with_norm(s_, others, norm);
  }
  const Tensor expert_norm = summed_norm(of_experts, groups_of_experts());
  const Tensor other_norm = summed_norm(others, groups_of_shards());
  Tensor norm;
  {
    const Tensor expert_square = pow(s_, expert_norm, Number(2.0));
    const Tensor other_square = pow(s_, other_norm, Number(2.0));
    norm = add(s_, expert_square, other_square);
  }
  norm = pow(s_, norm, Number(0.5));
  clip_with_norm(s_, of_experts, norm);
  clip_with_norm(s_, others, norm);
}

/// register_moe_load_balancing_hook: before the optimizer's step.
void MixtureTraining::balance_load() {
  const NoGrad no_grad(s_);
  std::vector<Module*> mixtures;
  for (const Module::Child& block : model_->child("layers").children)
    if (has_moe(*block.module)) mixtures.push_back(&moe_of(*block.module));
  Tensors counts;
  for (Module* moe : mixtures) {
    Tensor count = moe->buffer("tokens_per_expert_E");
    if (settings_.checkpoint != MixtureCheckpoint::none) count = floor_divide(s_, count, 2);
    counts.push_back(unsqueeze(s_, count, 0));
  }
  const Tensor all = cat(s_, counts, 0);
  if (data_group_) eager::all_reduce(s_, *data_group_, all, "sum");
  for (std::size_t i = 0; i < mixtures.size(); ++i) {
    Module& moe = *mixtures[i];
    const Tensor count = select(s_, all, 0, static_cast<std::int64_t>(i));
    Tensor change = sub(s_, mean(s_, count), count);
    change = sign(s_, std::move(change));
    constexpr double coefficient = 1e-3;
    change = mul(s_, std::move(change), Number(coefficient));
    change = sub(s_, change, mean(s_, change));
    add_(s_, moe.buffer("expert_bias_E"), change);
    zero_(s_, moe.buffer("tokens_per_expert_E"));
  }
}

/// set_pg_timeouts, after the first step: a barrier, whose tensor stays with the process group.
void MixtureTraining::shorten_timeouts() {
  constants_.push_back(allocate(s_, {.dtype = Dtype::float32, .device = s_.settings.device}, {1}));
  barrier(s_, world_);
}

void MixtureTraining::iteration(const Probe& probe) {
  probe(Moment::start, 0);
  optimizer_->zero_grad(s_);
  batches_.clear();
  labels_.reset();
  loss_.reset();
  const int last = settings_.micro_batches - 1;
  {
    const Tensor labels_of_all = count_of_all_labels();
    for (int number = 0; number <= last; ++number) micro_batch(number, labels_of_all, probe);
    if (settings_.clips) clip();
    if (settings_.clips) probe(Moment::clip, last);
    balance_load();
    optimizer_->step(s_);
  }
  probe(Moment::step, last);
  if (std::exchange(is_first_step_, false)) shorten_timeouts();
}

}  // namespace shardscope::eager::parallel
