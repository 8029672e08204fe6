#include "core/pytorch/parallel/training.h"

#include "core/pytorch/engine/aten/loss.h"
#include "core/pytorch/engine/checkpoint.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/parallel/loss_parallel.h"
#include "core/pytorch/runtimes/common/clip_grad_norm.h"
#include "core/pytorch/runtimes/common/to_empty.h"

namespace shardscope::eager::parallel {
namespace {

/// What a gradient of a module's parameters lies like under each style.
constexpr ParameterLayout of_colwise{shard(0), shard(0)};
constexpr ParameterLayout of_rowwise{shard(1), shard(1)};
constexpr ParameterLayout of_rowwise_embedding{shard(0), replicated};
constexpr ParameterLayout of_colwise_embedding{shard(1), shard(1)};
constexpr ParameterLayout of_norm{replicated, partial};

void move(std::map<const TensorImpl*, ParameterLayout>& layouts, const Tensor& from,
          const Tensor& to) {
  if (const auto found = layouts.find(from.impl()); found != layouts.end())
    layouts.insert_or_assign(to.impl(), found->second);
}

}  // namespace

PipelineSetup pipeline_setup_of(const ParallelSettings& settings) {
  const MeshAxis& outermost = settings.mesh.front();
  return {.kind = settings.schedule,
          .ranks = outermost.name == "pp" ? outermost.size : 1,
          .stages_per_rank = settings.stages_per_rank,
          .micro_batches = settings.micro_batches,
          .options = {}};
}

ParallelTraining::ParallelTraining(Session& s, ProcessGroups& groups,
                                   const ParallelSettings& settings)
    : s_(s), settings_(settings), mesh_(groups, settings.mesh) {
  tensor_axis_.pending = context_axis_.pending = expert_axis_.pending = &pending_;
  s_.observe(pending_);
  if (mesh_.size("tp") > 1) tensor_axis_.group = &mesh_.group("tp");
  if (mesh_.size("cp") > 1) context_axis_.group = &mesh_.group("cp");
  if (settings_.experts.experts > 0) {
    expert_mesh_ = std::make_unique<DeviceMesh>(
        groups, std::vector<MeshAxis>{{"ep_shard", settings_.experts.shards},
                                      {"ep", settings_.experts.ranks}});
    if (settings_.experts.ranks > 1) expert_axis_.group = &expert_mesh_->group("ep");
  }
  make_model();
  shard_axis_.pending = &pending_;
  if (mesh_.has("dp_shard"))
    shard_axis_.group =
        mesh_.size("cp") > 1 ? &mesh_.flatten("dp_shard", "cp") : &mesh_.group("dp_shard");
  if (settings_.float8.recipe != Float8Recipe::none)
    float8_ = std::make_unique<Float8Layers>(float8_layers_of_torchtitan(*model_), settings_.float8,
                                             shard_axis_.group);
  if (mesh_.has("dp_shard")) {
    fsdp_mesh_ = std::make_shared<fsdp2::MeshInfo>();
    fsdp_mesh_->shard = shard_axis_.group;
    if (mesh_.has("dp_replicate")) fsdp_mesh_->replicate = &mesh_.group("dp_replicate");
  }
  for (Part& part : parts_) parallelize(part, groups);
  if (mesh_.size("pp") > 1) make_pipeline();
  optimizer_ = std::make_unique<ParameterOptimizer>(parameters(), settings_.optimizer);
  if (!is_sharded() && tensor_axis_.group)
    optimizer_->read_gradients_through(
        [this](Session& in, const Tensor& parameter, const Tensor& gradient) {
          const ParameterLayout* layout = layout_of(parameter);
          return layout ? gradient_like_parameter(in, tensor_axis_, gradient, *layout) : gradient;
        });
  const Like integers{.dtype = Dtype::int64, .device = s_.settings.device};
  ids_ = allocate(s_, integers, {settings_.batch, settings_.length});
  labels_ = allocate(s_, integers, {settings_.batch, settings_.length});
}

/// tensor parallelism, checkpointing, data parallelism, then memory: the order of record.py.
void ParallelTraining::parallelize(Part& part, ProcessGroups& groups) {
  if (tensor_axis_.group && settings_.transformers_model) apply_transformers_plan(*part.model);
  if (tensor_axis_.group && !settings_.transformers_model) apply_tensor_parallel(*part.model);
  if (settings_.checkpoint_every > 0) apply_checkpointing(*part.model);
  if (fsdp_mesh_) {
    part.sharded = std::make_unique<fsdp2::FullySharded>(s_, groups);
    apply_fully_shard(part);
  }
  {
    const NoGrad no_grad(s_);
    to_empty(s_, *part.model, part.sharded != nullptr,
             [&](const Tensor& from, const Tensor& to) { move(layouts_, from, to); });
    if (part.sharded) part.sharded->reset_sharded_params();
  }
  if (!fsdp_mesh_ && mesh_.size("pp") > 1 && mesh_.size("dp_replicate") > 1) apply_ddp(part);
}

void ParallelTraining::apply_ddp(Part& part) {
  part.replicated = std::make_unique<ddp::DistributedDataParallel>(
      s_, part.model, mesh_.group("dp_replicate"), ddp::Options{});
}

void ParallelTraining::make_model() {
  if (settings_.transformers_model) {
    maker_ = std::make_unique<Session>(SessionSettings{.device = Device::meta});
    model_ = settings_.transformers_model(*maker_);
  } else if (mesh_.size("pp") > 1) {
    return make_parts();
  } else {
    model_ = make_part({});
  }
  parts_.push_back({.stage = 0, .model = model_, .sharded = {}, .replicated = {}});
}

/// torch.nn.ModuleList of the stages of this rank.
void ParallelTraining::make_parts() {
  const std::vector<int> rank_of_stage = rank_of_stages(pipeline_setup_of(settings_));
  const auto stages = static_cast<int>(rank_of_stage.size());
  model_ = std::make_shared<Module>();
  model_->class_name = "ModuleList";
  for (int stage = 0; stage < stages; ++stage) {
    if (rank_of_stage[static_cast<std::size_t>(stage)] != mesh_.group("pp").rank) continue;
    std::shared_ptr<Module> part = make_part(
        {.first = stage == 0,
         .last = stage + 1 == stages,
         .layers = layers_of_stage(settings_.stage_layers, settings_.shape.layers, stages, stage)});
    model_->children.push_back({std::to_string(parts_.size()), part});
    parts_.push_back({.stage = stage, .model = part, .sharded = {}, .replicated = {}});
  }
}

std::shared_ptr<Module> ParallelTraining::make_part(const LlamaPart& part) {
  LlamaOptions options{.shape = settings_.shape,
                       .part = part,
                       .length = settings_.length,
                       .dtype = settings_.dtype,
                       .attention = {},
                       .feed_forward = {},
                       .pending = &pending_};
  if (context_axis_.group)
    options.attention = [axis = context_axis_, ring = settings_.ring](Session& in, Tensor query,
                                                                      Tensor key, Tensor value) {
      return ring_attention(in, axis, ring, std::move(query), std::move(key), std::move(value));
    };
  if (settings_.experts.experts > 0)
    options.feed_forward = [this, options](const std::string& name) {
      return make_moe(s_, name, options, settings_.experts, expert_axis_);
    };
  return make_llama(s_, options);
}

Tensors ParallelTraining::parameters() {
  Tensors all;
  for (const NamedParameter& named : named_parameters_of(*model_)) all.push_back(named.tensor());
  return all;
}

Tensors ParallelTraining::optimizer_states() const {
  Tensors all;
  for (const ParameterOptimizer::State& state : optimizer_->states())
    for (const Tensor& tensor : {state.step, state.first_moment, state.second_moment})
      if (tensor.defined()) all.push_back(tensor);
  return all;
}

void ParallelTraining::note_layout(const Module& module, ParameterLayout layout) {
  for (const Module::NamedTensor& own : module.parameters)
    layouts_.insert_or_assign(own.tensor.impl(), layout);
}

const ParameterLayout* ParallelTraining::layout_of(const Tensor& parameter) const {
  const auto found = layouts_.find(parameter.impl());
  return found == layouts_.end() ? nullptr : &found->second;
}

void ParallelTraining::parallelize_block(Module& block) {
  const Placement activations = settings_.sequence_parallel ? shard(1) : replicated;
  Module& attention = block.child("attention");
  Module& feed_forward = block.child("feed_forward");
  const bool in_float8 = settings_.float8_tensor_parallel;
  const ColwiseStyle columns{.input_is_distributed = settings_.sequence_parallel,
                             .output = {.placement = shard(-1), .casts_gradient = in_float8},
                             .casts_input = in_float8};
  for (Module* module : {&attention.child("wq"), &attention.child("wk"), &attention.child("wv"),
                         &feed_forward.child("w1"), &feed_forward.child("w3")}) {
    colwise_linear(s_, tensor_axis_, *module, columns);
    note_layout(*module, of_colwise);
    if (float8_) float8_->split(*module, {Float8Style::columns, tensor_axis_});
  }
  for (Module* module : {&attention.child("wo"), &feed_forward.child("w2")}) {
    rowwise_linear(s_, tensor_axis_, *module, activations, in_float8);
    note_layout(*module, of_rowwise);
    if (float8_) float8_->split(*module, {Float8Style::rows, tensor_axis_});
  }
  if (!settings_.sequence_parallel) return;
  for (const char* name : {"attention_norm", "ffn_norm"}) {
    sequence_parallel(tensor_axis_, block.child(name));
    note_layout(block.child(name), of_norm);
  }
  gather_first_input(tensor_axis_, attention, in_float8);
  gather_first_input(tensor_axis_, feed_forward, in_float8);
}

void ParallelTraining::parallelize_embedding(Module& embedding, Placement activations) {
  if (settings_.embedding == EmbeddingStyle::rowwise) {
    rowwise_embedding(s_, tensor_axis_, embedding, activations);
    note_layout(embedding, of_rowwise_embedding);
  } else {
    colwise_embedding(s_, tensor_axis_, embedding, activations);
    note_layout(embedding, of_colwise_embedding);
  }
}

void ParallelTraining::parallelize_output(Module& norm, Module& output, Placement activations) {
  const bool sequence = settings_.sequence_parallel;
  if (sequence) {
    sequence_parallel(tensor_axis_, norm);
    note_layout(norm, of_norm);
  }
  const bool split = settings_.loss_parallel;
  colwise_linear(s_, tensor_axis_, output,
                 {.input = activations,
                  .input_is_distributed = sequence,
                  .output = {.placement = split ? shard(-1) : replicated, .local = !split}});
  note_layout(output, of_colwise);
}

void ParallelTraining::apply_tensor_parallel(Module& model) {
  const Placement activations = settings_.sequence_parallel ? shard(1) : replicated;
  if (model.children.front().name == "tok_embeddings")
    parallelize_embedding(model.child("tok_embeddings"), activations);
  if (model.children.back().name == "output")
    parallelize_output(model.child("norm"), model.child("output"), activations);
  for (const Module::Child& block : model.child("layers").children)
    parallelize_block(*block.module);
}

void ParallelTraining::apply_transformers_plan(Module& module) {
  divided_ =
      std::make_unique<TensorParallel>(s_, tensor_axis_, module, settings_.transformers_plan);
  for (const NamedParameter& parameter : named_parameters_of(module))
    if (const ParameterLayout* layout = divided_->layout_of(parameter))
      layouts_.insert_or_assign(parameter.tensor().impl(), *layout);
}

Tensor ParallelTraining::logits_of(const Tensor& ids) {
  if (!settings_.transformers_model) return call_one(s_, *model_, {ids});
  return call(s_, *model_, {ids, Tensor(), Tensor()})[1];
}

void ParallelTraining::apply_checkpointing(Module& model) {
  if (settings_.transformers_model) {
    for (const Module::Child& block : model.child("model").child("layers").children)
      checkpoint_forward(*block.module, settings_.checkpoint);
    return;
  }
  std::vector<Module::Child>& blocks = model.child("layers").children;
  const auto every = static_cast<std::size_t>(settings_.checkpoint_every);
  for (std::size_t i = every - 1; i < blocks.size(); i += every)
    blocks[i].module = checkpoint_wrapper(blocks[i].module, settings_.checkpoint);
}

void ParallelTraining::apply_fully_shard(Part& part) {
  fsdp2::Options options{.mesh = fsdp_mesh_,
                         .reshard_after_forward = settings_.reshard_after_forward,
                         .mixed_precision = settings_.mixed_precision};
  options.gradient_rule = [this](const Tensor& parameter) -> fsdp2::GradientRule {
    const ParameterLayout* layout = layout_of(parameter);
    if (!layout) return {};
    return {.redistribute =
                [this, layout = *layout](Session& in, const Tensor& gradient) {
                  return gradient_like_parameter(in, tensor_axis_, gradient, layout);
                },
            .may_reduce = layout->placement == replicated};
  };
  if (float8_)
    options.gather_extension = [this](const Tensor& parameter) {
      return float8_->extension_of(parameter);
    };
  for (const Module::Child& block : part.model->child("layers").children) {
    if (settings_.experts.experts > 0) shard_experts(part, *block.module, options);
    part.sharded->fully_shard({block.module.get()}, options);
  }
  part.sharded->fully_shard({part.model.get()}, options);
}

/// Experts are a unit of their own on the mesh ep_shard, or FSDP2 leaves them alone.
void ParallelTraining::shard_experts(Part& part, Module& given, fsdp2::Options& options) {
  const bool wrapped = given.class_name == "CheckpointWrapper";
  Module& block = wrapped ? given.child("_checkpoint_wrapped_module") : given;
  Module& experts = block.child("feed_forward").child("experts");
  if (settings_.experts.shards > 1) {
    if (!expert_fsdp_mesh_) {
      expert_fsdp_mesh_ = std::make_shared<fsdp2::MeshInfo>();
      expert_fsdp_mesh_->shard = &expert_mesh_->group("ep_shard");
    }
    fsdp2::Options own = options;
    own.mesh = expert_fsdp_mesh_;
    part.sharded->fully_shard({&experts}, own);
    return;
  }
  options.ignored = [this](const Tensor& parameter) { return ignored_.contains(parameter.impl()); };
  for (const Module::NamedTensor& own : experts.parameters) ignored_.insert(own.tensor.impl());
}

Tensor ParallelTraining::loss_of(const Tensor& logits, const Tensor& labels) {
  const Tensor rows = to(s_, flatten(s_, logits, 0, 1), Dtype::float32);
  const Tensor targets = flatten(s_, labels, 0, 1);
  if (settings_.loss_parallel && tensor_axis_.group)
    return parallel_cross_entropy(s_, tensor_axis_, rows, targets);
  return cross_entropy(s_, rows, targets);
}

/// Norms over the ranks of an axis: the squares are summed.
Tensor ParallelTraining::summed_norms(const Tensor& norms, const MeshAxisContext& axis) {
  if (!axis.group || axis.group->size() == 1) return norms;
  const Tensor squares = pow(s_, norms, Number(2.0));
  const Tensor sum = all_reduce(s_, pending_, *axis.group, squares);
  pending_.wait(s_, sum);
  return pow(s_, sum, Number(0.5));
}

/// torch.nn.utils.clip_grad_norm_ of DTensors: one reduction of all norms for each axis that
/// splits. Gradients that are partial sums are summed first.
void ParallelTraining::clip() {
  const NoGrad no_grad(s_);
  Tensors gradients, read;
  for (const Tensor& parameter : parameters()) {
    if (!parameter.grad().defined()) continue;
    gradients.push_back(parameter.grad());
    const ParameterLayout* layout = is_sharded() ? nullptr : layout_of(parameter);
    read.push_back(layout && layout->gradient == partial
                       ? gradient_like_parameter(s_, tensor_axis_, parameter.grad(), *layout)
                       : parameter.grad());
  }
  Tensor norms = stack(s_, gradient_norms(s_, read));
  read.clear();
  if (is_sharded()) norms = summed_norms(norms, shard_axis_);
  norms = summed_norms(norms, tensor_axis_);
  clip_with_norm(s_, gradients, vector_norm(s_, norms));
}

void ParallelTraining::micro_batch(int number, const Tensors& batch, const Probe& probe) {
  Tensor loss;
  {
    Tensor logits = logits_of(batch[0]);
    probe(Moment::forward, number);
    loss = loss_of(logits, batch[1]);
    logits.reset();
    if (settings_.micro_batches > 1) loss = div(s_, loss, Number(settings_.micro_batches));
    probe(Moment::loss, number);
    backward(s_, loss);
  }
  loss.reset();
  probe(Moment::backward, number);
}

void ParallelTraining::make_pipeline() {
  const bool split = settings_.sequence_parallel && tensor_axis_.group;
  const std::int64_t rows = settings_.batch / settings_.micro_batches;
  const std::int64_t length =
      split ? settings_.length / tensor_axis_.group->size() : settings_.length;
  const PipelineSetup setup = pipeline_setup_of(settings_);
  std::vector<StageSetup> stages;
  for (const Part& part : parts_)
    stages.push_back({.index = part.stage,
                      .stages = setup.stages(),
                      .module = StageModule(s_, *part.model, part.sharded.get(),
                                            part.replicated.get(), settings_.micro_batches),
                      .activation = {rows, length, settings_.shape.dim},
                      .dtype = settings_.mixed_precision.param_dtype.value_or(settings_.dtype)});
  pipeline_ =
      make_pipeline_run(s_, setup, mesh_.group("pp"), std::move(stages),
                        [this](Session&, const Tensor& output, int micro_batch) {
                          return loss_of(output, targets_[static_cast<std::size_t>(micro_batch)]);
                        });
}

void ParallelTraining::pipeline_step(const Tensors& batch, const StageWatcher& watch) {
  targets_ = chunk(s_, batch[1], settings_.micro_batches, 0);
  pipeline_->step(chunk(s_, batch[0], settings_.micro_batches, 0), watch);
  targets_.clear();
}

void ParallelTraining::update(const Probe& probe) {
  const int last = settings_.micro_batches - 1;
  if (settings_.clips) clip();
  if (settings_.clips) probe(Moment::clip, last);
  optimizer_->step(s_);
  probe(Moment::step, last);
  if (float8_) float8_->precompute_scales(s_);
  optimizer_->zero_grad(s_);
}

void ParallelTraining::iteration(const Probe& probe, const StageWatcher& watch) {
  probe(Moment::start, 0);
  Tensors batch{ids_, labels_};
  std::optional<ContextParallelScope> scope;
  if (context_axis_.group) {
    batch = {clone(s_, ids_), clone(s_, labels_)};
    scope.emplace(s_, context_axis_, settings_.ring, batch,
                  std::vector<Tensor*>{&model_->buffer("cos"), &model_->buffer("sin")});
  }
  Tensors parts = scope ? scope->inputs() : batch;
  const int last = settings_.micro_batches - 1;
  if (pipeline_) {
    pipeline_step(
        parts, watch ? watch : [](const char*, int, int) {});
    probe(Moment::backward, last);
  } else {
    for (int number = 0; number <= last; ++number) micro_batch(number, parts, probe);
  }
  scope.reset();
  update(probe);
  parts.clear();
  batch.clear();
  probe(Moment::zero_grad, last);
}

}  // namespace shardscope::eager::parallel
