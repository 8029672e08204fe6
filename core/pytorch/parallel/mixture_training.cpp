#include "core/pytorch/parallel/mixture_training.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/engine/aten/indexing.h"
#include "core/pytorch/engine/checkpoint.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/models/context.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/clip_grad_norm.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/common/to_empty.h"

namespace shardscope::eager::parallel {
namespace {

/// Of each a group, also of one rank.
std::vector<MeshAxis> dense_axes(const MixtureSettings& settings) {
  std::vector<MeshAxis> axes;
  for (const char* name : {"pp", "dp_replicate", "dp_shard", "cp", "tp"})
    axes.push_back({name, size_of_axis(settings.mesh, name)});
  return axes;
}

std::vector<MeshAxis> expert_axes(const MixtureSettings& settings) {
  int shards = 1;
  for (const char* name : {"dp_shard", "cp", "tp"}) shards *= size_of_axis(settings.mesh, name);
  return {{"pp", size_of_axis(settings.mesh, "pp")},
          {"dp_replicate", size_of_axis(settings.mesh, "dp_replicate")},
          {"efsdp", shards / settings.expert_ranks},
          {"ep", settings.expert_ranks}};
}

std::int64_t blocks_of(std::int64_t tokens) {
  return (tokens + flex_attention_block - 1) / flex_attention_block;
}

/// SelectiveAC's policy: what attention and topk return, what goes to the host, products of layers
/// with a bias, and every second one without. The router's gate without a bias always runs again;
/// torchtitan takes all products of its shape for it, here its name. Each block counts with a copy
/// of its own.
std::function<bool(const Operator&)> kept_operators(Session& s) {
  return [&s, products = 0](const Operator& op) mutable {
    if (op.name == "aten.mm.default") {
      const Module* module = s.current_module();
      if (module != nullptr && module->name.ends_with("router.gate")) return false;
      return ++products % 2 == 1;
    }
    const bool is_attention =
        op.kind == OperatorKind::attention || op.name == "higher_order.flex_attention_sums";
    return is_attention || op.name == "aten.addmm.default" || op.name == "aten.topk.default" ||
           op.name.ends_with(" to the host");
  };
}

/// Weights that each tensor rank has whole, before they are sharded.
std::unordered_set<const TensorImpl*> weights_of_all(Module& model) {
  std::unordered_set<const TensorImpl*> weights;
  for (const Module* module : modules_of(model))
    for (const Module::NamedTensor& own : module->parameters)
      if (is_whole_everywhere(*module, own.name)) weights.insert(own.tensor.impl());
  return weights;
}

}  // namespace

MixtureTraining::MixtureTraining(Session& s, ProcessGroups& groups, const MixtureSettings& settings)
    : s_(s),
      settings_(settings),
      mesh_(groups, dense_axes(settings)),
      expert_mesh_(groups, expert_axes(settings)),
      world_(groups.world()) {
  shard_group_ = splits_sequences() ? &mesh_.flatten("dp_shard", "cp") : &mesh_.group("dp_shard");
  data_group_ = group_with_replicas("dp_shard");
  token_group_ = splits_sequences() ? group_with_replicas("cp") : data_group_;
  dense_info_ = mesh_info(mesh_, *shard_group_);
  expert_info_ =
      has_expert_ranks() ? mesh_info(expert_mesh_, expert_mesh_.group("efsdp")) : dense_info_;
  make_parts();
  for (Part& part : parts_) parallelize(part, groups);
  if (has_stages()) make_pipeline();
  optimizer_ = std::make_unique<ParameterOptimizer>(parameters(), settings_.optimizer);
}

/// The axes from the replicas' to `inner`.
const ProcessGroup* MixtureTraining::group_with_replicas(const char* inner) {
  const char* outer = mesh_.size("dp_replicate") > 1 ? "dp_replicate" : "dp_shard";
  const bool is_axis = outer == std::string_view(inner);
  const ProcessGroup& group = is_axis ? mesh_.group(inner) : mesh_.flatten(outer, inner);
  return group.size() > 1 ? &group : nullptr;
}

PipelineSetup MixtureTraining::pipeline_setup() const {
  return {.kind = settings_.schedule,
          .ranks = mesh_.size("pp"),
          .stages_per_rank = settings_.stages_per_rank,
          .micro_batches = settings_.micro_batches,
          .options = {}};
}

std::shared_ptr<Module> MixtureTraining::make_part(const LlamaPart& part) {
  return make_mixture(s_, {.shape = settings_.shape,
                           .part = part,
                           .length = settings_.length,
                           .dtype = settings_.dtype,
                           .ranks = has_expert_ranks() ? &expert_mesh_.group("ep") : nullptr,
                           .tensor = tensor_ranks(),
                           .context = context_ranks(),
                           .load = settings_.load,
                           .float8 = settings_.float8});
}

void MixtureTraining::make_parts() {
  if (!has_stages()) {
    model_ = make_part({});
    parts_.push_back({.stage = 0, .model = model_, .sharded = {}});
    return;
  }
  const std::vector<int> rank_of_stage = rank_of_stages(pipeline_setup());
  const auto stages = static_cast<int>(rank_of_stage.size());
  model_ = std::make_shared<Module>();
  model_->class_name = "ModuleList";
  for (int stage = 0; stage < stages; ++stage) {
    if (rank_of_stage[static_cast<std::size_t>(stage)] != mesh_.group("pp").rank) continue;
    const LlamaPart held{
        .first = stage == 0,
        .last = stage + 1 == stages,
        .layers = layers_of_stage(settings_.stage_layers, settings_.shape.layers, stages, stage)};
    parts_.push_back({.stage = stage, .model = make_part(held), .sharded = {}});
    model_->children.push_back({std::to_string(parts_.size() - 1), parts_.back().model});
  }
}

void MixtureTraining::parallelize(Part& part, ProcessGroups& groups) {
  const bool is_sharded =
      size_of_axis(settings_.mesh, "dp_shard") * size_of_axis(settings_.mesh, "cp") > 1;
  if (settings_.shape.ties_head && !(settings_.shards && is_sharded))
    throw Error({.where = "--mesh",
                 .what = "a tied output of torchtitan 0.3's layers is predicted only where FSDP2 "
                         "shards the model",
                 .way_out = "give a mesh with shard=2 or more"});
  if (settings_.checkpoint != MixtureCheckpoint::none) apply_checkpointing(*part.model);
  if (settings_.shards) {
    part.sharded = std::make_unique<fsdp2::FullySharded>(s_, groups);
    apply_fully_shard(part);
    if (has_expert_ranks()) prefetch_explicitly(part);
  }
  const NoGrad no_grad(s_);
  to_empty(s_, *part.model, true);
  if (part.sharded) part.sharded->reset_sharded_params();
  if (settings_.shape.ties_head) tie_head(*part.model);
}

/// Decoder.init_states: each module was given a parameter of its own when it was split, so FSDP2
/// gathers and reduces both. From its first step on they have one shard.
void MixtureTraining::tie_head(Module& model) {
  model.child("tok_embeddings").parameter("weight") = model.child("lm_head").parameter("weight");
}

std::vector<Module*> MixtureTraining::blocks() const {
  std::vector<Module*> all;
  for (const Part& part : parts_)
    for (const Module::Child& block : part.model->child("layers").children)
      all.push_back(block.module.get());
  return all;
}

fsdp2::MeshInfoRef MixtureTraining::mesh_info(const DeviceMesh& mesh,
                                              const ProcessGroup& shard) const {
  auto info = std::make_shared<fsdp2::MeshInfo>();
  info->shard = &shard;
  if (mesh.size("dp_replicate") > 1) info->replicate = &mesh.group("dp_replicate");
  return info;
}

const ProcessGroup* MixtureTraining::tensor_ranks() const {
  return mesh_.size("tp") > 1 ? &mesh_.group("tp") : nullptr;
}

const ProcessGroup* MixtureTraining::context_ranks() const {
  return splits_sequences() ? &mesh_.group("cp") : nullptr;
}

/// Summed over the tensor ranks before FSDP2 reduces it.
fsdp2::GradientRule MixtureTraining::summed_over_tensor_ranks() {
  return {.redistribute =
              [this](Session& in, const Tensor& gradient) {
                Tensor sum = all_reduce(in, pending_, *tensor_ranks(), gradient);
                pending_.wait(in, sum);
                return sum;
              },
          .may_reduce = true};
}

void MixtureTraining::apply_checkpointing(Module& model) {
  CheckpointOptions options{.early_stop = false};
  if (settings_.checkpoint == MixtureCheckpoint::selective) options.saves = kept_operators(s_);
  for (Module::Child& block : model.child("layers").children)
    block.module = checkpoint_wrapper(block.module, options);
}

/// apply_fsdp_to_decoder.
void MixtureTraining::apply_fully_shard(Part& part) {
  Module& model = *part.model;
  fsdp2::Options options{.mesh = dense_info_,
                         .reshard_after_forward = settings_.reshard_after_forward,
                         .mixed_precision = settings_.mixed_precision};
  if (tensor_ranks())
    options.gradient_rule = [this, whole = weights_of_all(model)](const Tensor& parameter) {
      return whole.contains(parameter.impl()) ? summed_over_tensor_ranks() : fsdp2::GradientRule{};
    };
  fsdp2::Options last = options;
  last.reshard_after_forward = false;
  fsdp2::FullySharded& sharded = *part.sharded;
  if (settings_.shape.ties_head) {
    sharded.fully_shard(
        {&model.child("tok_embeddings"), &model.child("norm"), &model.child("lm_head")}, last);
  } else {
    if (has_child(model, "tok_embeddings"))
      sharded.fully_shard({&model.child("tok_embeddings")}, options);
    if (has_child(model, "lm_head"))
      sharded.fully_shard({&model.child("norm"), &model.child("lm_head")}, last);
  }
  const int replicas = has_expert_ranks() ? 1 : mesh_.size("dp_replicate");
  const bool cuts_rows =
      replicas * shard_group_->size() * mesh_.size("tp") > settings_.shape.experts;
  for (const Module::Child& block : model.child("layers").children) {
    if (!has_moe(*block.module)) {
      sharded.fully_shard({block.module.get()}, options);
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
    sharded.fully_shard({block.module.get()}, of_block);
  }
  fsdp2::Options root = options;
  root.reshard_after_forward = {};
  sharded.fully_shard({&model}, root);
  for (Module* module : modules_of(model))
    if (sharded.state_of(*module)) sharded.set_gradient_divide_factor(*module, 1.0);
}

/// The host waits in each layer, so that FSDP2's own prefetches would come too late.
void MixtureTraining::prefetch_explicitly(Part& part) {
  Module& model = *part.model;
  fsdp2::FullySharded& sharded = *part.sharded;
  const bool has_head = has_child(model, "lm_head");
  Module* before = has_child(model, "tok_embeddings") ? &model.child("tok_embeddings") : nullptr;
  for (const Module::Child& block : model.child("layers").children) {
    if (before != nullptr) {
      sharded.set_forward_prefetch(*before, {block.module.get()});
      sharded.set_backward_prefetch(*block.module, {before});
    }
    before = block.module.get();
  }
  if (!has_head || model.child("layers").children.empty()) return;
  sharded.set_forward_prefetch(*before, {&model.child("norm"), &model.child("lm_head")});
  sharded.set_backward_prefetch(model.child("lm_head"), {before});
}

/// A micro-batch of a stage: activations of the rank's tokens.
void MixtureTraining::make_pipeline() {
  const std::int64_t length = own_length() / mesh_.size("tp");
  const PipelineSetup setup = pipeline_setup();
  const auto positions_of = [this](int micro_batch) -> Tensors {
    return {of_stages_[static_cast<std::size_t>(micro_batch)].positions};
  };
  constexpr int unscaled = 1;
  std::vector<StageSetup> stages;
  for (const Part& part : parts_)
    stages.push_back({.index = part.stage,
                      .stages = setup.stages(),
                      .module = StageModule(s_, *part.model, part.sharded.get(), nullptr, unscaled),
                      .activation = {settings_.batch, length, settings_.shape.dim},
                      .dtype = settings_.mixed_precision.param_dtype.value_or(settings_.dtype),
                      .more = positions_of,
                      .returns_outputs = false});
  const auto loss = [this](Session&, const Tensor& output, int micro_batch) {
    const StepInputs& own = of_stages_[static_cast<std::size_t>(micro_batch)];
    return loss_of(parts_.back(), output,
                   {.labels = own.labels, .positions = {}, .labels_of_all = labels_of_all_});
  };
  pipeline_ = make_pipeline_run(s_, setup, mesh_.group("pp"), std::move(stages), loss);
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

/// BlockMask: numbers and places of partly and fully attended blocks, by queries and by keys.
void MixtureTraining::make_block_lists(const Tensor& positions, std::int64_t queries) {
  const std::int64_t batch = positions.size(0), of_queries = blocks_of(queries),
                     of_keys = blocks_of(positions.size(1));
  const Like integers = like(positions, Dtype::int32);
  for (const auto& [rows, columns] : {std::pair{of_queries, of_keys},
                                      {of_queries, of_keys},
                                      {of_keys, of_queries},
                                      {of_keys, of_queries}}) {
    mask_.push_back(allocate(s_, integers, {batch, 1, rows}));
    mask_.push_back(allocate(s_, integers, {batch, 1, rows, columns}));
  }
}

/// create_block_mask, compiled, of causal attention inside documents: blocks, and where each
/// document ends.
void MixtureTraining::make_mask(const Tensor& positions) {
  static constexpr Operator op{"torchtitan.create_attention_mask", OperatorKind::other};
  const std::int64_t length = positions.size(1);
  const Like integers = like(positions, Dtype::int32);
  if (constants_.empty()) constants_.push_back(full(s_, {}, like(positions, Dtype::boolean)));
  mask_.push_back(allocate(s_, integers, positions.sizes()));
  // One sequence: the document of each token, and where each document begins. Several sequences:
  // where each document ends.
  if (positions.size(0) == 1)
    mask_.push_back(allocate(s_, integers, {blocks_of(length + 1) * flex_attention_block}));
  for (int number = 0; number < masks(); ++number) {
    make_block_lists(positions, length);
    dispatched(s_, op, Tensors{positions}, mask_);
  }
}

/// _HeadTailLoadBalancer: of the sequence in 2 parts a rank, the one from the front and the one
/// from the back.
Tensor MixtureTraining::head_and_tail_order(const Tensor& positions) {
  const std::int64_t length = positions.size(1);
  const Tensor places = arange(s_, length, like(positions, Dtype::int32));
  return view(s_, clone(s_, places), {1, length});
}

/// distribute_tensor of (B, T) in that order: this rank's part, copied.
Tensor MixtureTraining::own_tokens(const Tensor& all, const Tensor& order) {
  const Tensor sorted = gather(s_, all, 1, expand(s_, order, all.sizes()));
  const ProcessGroup& ranks = *context_ranks();
  return clone(s_, chunk(s_, sorted, ranks.size(), 1)[static_cast<std::size_t>(ranks.rank)]);
}

/// post_dataloading_process: the mask of whole sequences, and with split ones that of this rank's
/// queries in its place, and this rank's tokens.
MixtureTraining::StepInputs MixtureTraining::prepared(const StepInputs& all) {
  static constexpr Operator op{"torchtitan.create_cp_block_mask", OperatorKind::other};
  const std::size_t before = mask_.size();
  make_mask(all.positions);
  if (!splits_sequences()) return all;
  StepInputs own;
  {
    const Tensor order = head_and_tail_order(all.positions);
    own = {.ids = own_tokens(all.ids, order),
           .positions = own_tokens(all.positions, order),
           .labels = own_tokens(all.labels, order)};
  }
  const std::size_t documents = before + (all.positions.size(0) == 1 ? 2 : 1);
  const Tensors of_all(mask_.begin() + static_cast<std::ptrdiff_t>(documents), mask_.end());
  mask_.resize(documents);
  for (int number = 0; number < masks(); ++number) {
    mask_.push_back(head_and_tail_order(all.positions));
    make_block_lists(all.positions, own_length());
    dispatched(s_, op, Tensors{all.positions}, mask_);
  }
  return own;
}

Tensor MixtureTraining::count_of_all_labels() {
  const Tensor on_host = allocate(s_, {.dtype = Dtype::int64, .device = Device::cpu}, {});
  Tensor count = to(s_, on_host, {.device = s_.settings.device});
  if (!data_group_) return count;
  Tensor sum = functional_all_reduce(s_, *data_group_, count, "sum");
  wait_tensor(s_, sum);
  return sum;
}

Tensor MixtureTraining::loss_of(Part& part, Tensor hidden, const LossInputs& inputs) {
  return chunked_loss(s_,
                      {.head = part.model->child("lm_head"),
                       .sharded = part.sharded.get(),
                       .tensor = tensor_ranks()},
                      std::move(hidden), inputs);
}

void MixtureTraining::micro_batch(int number, const Tensor& labels_of_all, const Probe& probe) {
  const Tensor ids = integers_on_device();
  const Tensor positions = integers_on_device();
  batches_.push_back(ids);
  batches_.push_back(positions);
  labels_ = integers_on_device();
  const StepInputs own = prepared({.ids = ids, .positions = positions, .labels = labels_});
  Tensor loss;
  {
    Tensor hidden = call_one(s_, *model_, {own.ids, own.positions});
    probe(Moment::forward, number);
    loss =
        loss_of(parts_.front(), std::move(hidden),
                {.labels = own.labels, .positions = own.positions, .labels_of_all = labels_of_all});
  }
  probe(Moment::loss, number);
  backward(s_, loss);
  mask_.clear();
  loss_ = std::move(loss);
  probe(Moment::backward, number);
}

/// pp_forward_backward_step.
void MixtureTraining::pipeline_step(const StageWatcher& watch) {
  for (int number = 0; number < settings_.micro_batches; ++number) {
    batches_.push_back(integers_on_device());
    batches_.push_back(integers_on_device());
    targets_.push_back(integers_on_device());
  }
  Tensors ids;
  for (std::size_t number = 0; number < targets_.size(); ++number) {
    of_stages_.push_back(prepared({.ids = batches_[2 * number],
                                   .positions = batches_[2 * number + 1],
                                   .labels = targets_[number]}));
    ids.push_back(of_stages_.back().ids);
  }
  pipeline_->step(
      ids, watch ? watch : [](const char*, int, int) {});
  mask_.clear();
  of_stages_.clear();
  loss_ = allocate(s_, {.dtype = Dtype::float32, .device = s_.settings.device}, {1});
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
  Groups groups;
  if (shard_group_->size() > 1) groups.push_back(shard_group_);
  if (tensor_ranks()) groups.push_back(tensor_ranks());
  return groups;
}

/// The mesh of experts is one group where its ranks are those of dp_shard.
MixtureTraining::Groups MixtureTraining::groups_of_experts() const {
  if (mesh_.size("dp_replicate") == 1 && !tensor_ranks()) return groups_of_shards();
  const ProcessGroup& shards = expert_mesh_.group("efsdp");
  Groups groups;
  if (shards.size() > 1) groups.push_back(&shards);
  groups.push_back(&expert_mesh_.group("ep"));
  return groups;
}

/// The norm of all stages' gradients.
Tensor MixtureTraining::over_stages(Tensor norm) {
  if (!has_stages()) return norm;
  norm = pow(s_, norm, Number(2.0));
  eager::all_reduce(s_, mesh_.group("pp"), norm, "sum");
  return pow(s_, norm, Number(0.5));
}

/// _clip_grad_norm_with_ep: experts by themselves.
void MixtureTraining::clip() {
  const NoGrad no_grad(s_);
  Tensors of_experts, others;
  for (Module* block : blocks())
    if (has_moe(*block))
      for (const Module::NamedTensor& own : grouped_experts_of(*block).parameters)
        of_experts.push_back(own.tensor.grad());
  for (const Tensor& parameter : parameters()) {
    const bool is_expert = std::any_of(of_experts.begin(), of_experts.end(),
                                       [&](const Tensor& g) { return g.is(parameter.grad()); });
    if (!is_expert || !has_expert_ranks()) others.push_back(parameter.grad());
  }
  if (!has_expert_ranks()) {
    const Tensor norm = over_stages(summed_norm(others, groups_of_shards()));
    return clip_with_norm(s_, others, norm);
  }
  const Tensor expert_norm = of_experts.empty() ? scalar_tensor(s_, like(others.front()))
                                                : summed_norm(of_experts, groups_of_experts());
  const Tensor other_norm = summed_norm(others, groups_of_shards());
  Tensor norm;
  {
    const Tensor expert_square = pow(s_, expert_norm, Number(2.0));
    const Tensor other_square = pow(s_, other_norm, Number(2.0));
    norm = add(s_, expert_square, other_square);
  }
  norm = over_stages(pow(s_, norm, Number(0.5)));
  if (!of_experts.empty()) clip_with_norm(s_, of_experts, norm);
  clip_with_norm(s_, others, norm);
}

/// register_moe_load_balancing_hook: before the optimizer's step.
void MixtureTraining::balance_load() {
  const NoGrad no_grad(s_);
  std::vector<Module*> mixtures;
  for (Module* block : blocks())
    if (has_moe(*block)) mixtures.push_back(&moe_of(*block));
  if (mixtures.empty()) return;
  Tensors counts;
  for (Module* moe : mixtures) {
    Tensor count = moe->buffer("tokens_per_expert_E");
    if (settings_.checkpoint != MixtureCheckpoint::none) count = floor_divide(s_, count, 2);
    counts.push_back(unsqueeze(s_, count, 0));
  }
  const Tensor all = cat(s_, counts, 0);
  if (has_expert_ranks() && tensor_ranks()) eager::all_reduce(s_, *tensor_ranks(), all, "sum");
  if (token_group_) eager::all_reduce(s_, *token_group_, all, "sum");
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

void MixtureTraining::iteration(const Probe& probe, const StageWatcher& watch) {
  probe(Moment::start, 0);
  optimizer_->zero_grad(s_);
  batches_.clear();
  targets_.clear();
  labels_.reset();
  loss_.reset();
  const int last = settings_.micro_batches - 1;
  {
    labels_of_all_ = count_of_all_labels();
    if (pipeline_) {
      pipeline_step(watch);
      probe(Moment::backward, last);
    } else {
      for (int number = 0; number <= last; ++number) micro_batch(number, labels_of_all_, probe);
    }
    if (settings_.clips) clip();
    if (settings_.clips) probe(Moment::clip, last);
    balance_load();
    optimizer_->step(s_);
    labels_of_all_.reset();
  }
  probe(Moment::step, last);
  if (std::exchange(is_first_step_, false)) shorten_timeouts();
}

}  // namespace shardscope::eager::parallel
