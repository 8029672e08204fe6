#include "core/pytorch/runtimes/training/training_loop.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/pytorch/engine/aten/loss.h"
#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/reductions.h"
#include "core/pytorch/engine/saved_tensor_scope.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/training/activation_offloading.h"

namespace shardscope::eager {

namespace {

/// The weights of modules that are nn.Embedding, or transformers' classes of it.
Tensors embedding_weights(Module& root) {
  Tensors weights;
  for (Module* module : modules_of(root)) {
    if (module->class_name.find("Embedding") == std::string::npos) continue;
    for (const Module::NamedTensor& parameter : module->parameters)
      if (parameter.registered && parameter.name == "weight") weights.push_back(parameter.tensor);
  }
  return weights;
}

/// Embeddings and heads by name. Source: LLaMA-Factory 0.9.5, train/trainer_utils.py,
/// _create_muon_optimizer; ms-swift 3602360, optimizers/muon.py.
Tensors ends_by_name(Module& root) {
  Tensors ends;
  for (const NamedParameter& p : named_parameters_of(root))
    if (p.name.find("embed") != std::string::npos || p.name.find("lm_head") != std::string::npos)
      ends.push_back(p.tensor());
  return ends;
}

}  // namespace

TrainingLoop::OwnPart::OwnPart(Session& s, const ProcessGroup& world,
                               const ParameterOptimizer& whole)
    : shared(s, whole.parameters(), world, {}),
      optimizer(shared.own_parameters(), whole.settings()) {}

TrainingLoop::TrainingLoop(Session& s, ParallelModel& model, const ProcessGroup& world,
                           const TrainingSettings& settings,
                           std::shared_ptr<ExportedModel> exported)
    : s_(s),
      model_(model),
      settings_(settings),
      optimizer_(optimizer_of(model.parameters())),
      exported_(std::move(exported)) {
  if (settings.zero_redundancy) own_.emplace(s, world, optimizer_);
  if (settings.scales_loss) scaler_.emplace(model.infinity_sharing());
  if (settings.steps_in_backward) step_in_backward();
  make_batches();
}

/// Source of the embeddings' rule: transformers 5.24 trainer.py, create_optimizer.
ParameterOptimizer TrainingLoop::optimizer_of(Tensors parameters) {
  ParameterOptimizer optimizer(std::move(parameters), settings_.optimizer);
  if (model_.rewrites_gradients())
    optimizer.read_gradients_through(
        [this](Session& s, const Tensor& parameter, const Tensor& gradient) {
          return model_.read_gradient(s, parameter, gradient);
        });
  const auto& bitsandbytes = settings_.optimizer.bitsandbytes;
  if (bitsandbytes && bitsandbytes->embeddings_in_float)
    optimizer.keep_in_float(embedding_weights(model_.module()));
  if (settings_.optimizer.rule == OptimizerRule::muon)
    optimizer.leave_to_adamw(ends_by_name(model_.module()));
  return optimizer;
}

void TrainingLoop::step_in_backward() {
  if (settings_.micro_batches > 1 || settings_.clips || scaler_ || own_ || model_.engine())
    throw Error({.where = "optimizer in the backward",
                 .what = "gradients of several micro-batches, their clipping, a loss scale and "
                         "sharded states need them all at once",
                 .way_out = "give --accumulate 1 and --clip 0, or leave it out"});
  for (const Tensor& parameter : model_.parameters()) {
    if (!parameter.requires_grad()) continue;
    in_backward_.push_back(
        std::make_unique<ParameterOptimizer>(Tensors{parameter}, settings_.optimizer));
    register_post_accumulate_grad_hook(
        s_, parameter, [own = in_backward_.back().get()](Session& s, const Tensor&) {
          own->step(s);
          own->zero_grad(s);
        });
  }
}

Tensor TrainingLoop::tokens(std::int64_t sequences, std::int64_t length) const {
  const Dims sizes = settings_.flattens ? Dims{1, sequences * length} : Dims{sequences, length};
  return zeros(s_, sizes, {Dtype::int64, s_.settings.device});
}

void TrainingLoop::make_batches() {
  const auto of_iteration = static_cast<std::size_t>(settings_.micro_batches);
  const std::size_t batches = goes_on() && !exported_ ? settings_.lengths.size() + 1 : of_iteration;
  for (std::size_t i = 0; i < batches; ++i) {
    if (exported_) {
      for (Tensor& input : exported_->inputs(s_, s_.settings.device)) inputs_.push_back(input);
      continue;
    }
    const std::int64_t length =
        i < settings_.lengths.size() ? settings_.lengths[i] : settings_.length;
    inputs_.push_back(tokens(settings_.sequences(), length));
    if (settings_.pads) masks_.push_back(tokens(settings_.sequences(), length));
    inputs_.push_back(tokens(settings_.sequences(), length));
  }
}

/// An export's inputs; or ids, mask and labels, which a model does not get that leaves the loss.
Arguments TrainingLoop::batch_of(int number) const {
  if (exported_) {
    const auto each = static_cast<std::ptrdiff_t>(inputs_.size()) / settings_.micro_batches;
    const auto first = inputs_.begin() + each * number;
    return {Tensors(first, first + each), -1};
  }
  const bool in_model = settings_.loss == LossPlace::in_model;
  return {ids_of(number), mask_of(number), in_model ? labels_of(number) : Tensor()};
}

Tensor TrainingLoop::mask_of(int number) const {
  return masks_.empty() ? Tensor() : masks_[place_of(number)];
}

/// The last batch is that of `length`.
std::size_t TrainingLoop::place_of(int number) const {
  const std::size_t place = first_ + static_cast<std::size_t>(number);
  return goes_on() ? std::min(place, settings_.lengths.size()) : place;
}

void TrainingLoop::iteration(const Probe& probe, int left_out) {
  probe(Moment::start, left_out);
  if (ModelEngine* engine = model_.engine(); engine && left_out > 0) engine->leave_out(left_out);
  for (int i = left_out; i < settings_.micro_batches; ++i) micro_batch(i, probe);
  update(probe);
  if (goes_on()) first_ += static_cast<std::size_t>(settings_.micro_batches);
  if (settings_.drops_logits) drop_logits();
}

void TrainingLoop::drop_logits() {
  logits_.reset();
  model_loss_.reset();
  loss_.reset();
}

void TrainingLoop::update(const Probe& probe) {
  const int last = settings_.micro_batches - 1;
  if (ModelEngine* engine = model_.engine()) {
    engine->step();
    probe(Moment::step, last);
    probe(Moment::zero_grad, last);
    return;
  }
  if (settings_.clips) {
    if (scaler_) scaler_->unscale(s_, optimizer_);
    model_.clip(s_);
    probe(Moment::clip, last);
  }
  if (!in_backward_.empty()) {
    probe(Moment::step, last);
    probe(Moment::zero_grad, last);
    return;
  }
  if (scaler_) {
    scaler_->step(s_, optimizer_);
    scaler_->update(s_);
  } else {
    step_optimizer();
  }
  probe(Moment::step, last);
  optimizer_.zero_grad(s_, settings_.zero_grad_to_none);
  probe(Moment::zero_grad, last);
}

void TrainingLoop::step_optimizer() {
  if (own_)
    own_->shared.step([this] { own_->optimizer.step(s_); });
  else
    optimizer_.step(s_);
  if (after_step_) after_step_(s_);
}

Tensors TrainingLoop::forward(Arguments batch) {
  std::optional<SavedTensorScope> offloading;
  if (settings_.offloads_activations)
    offloading.emplace(s_, activation_offloading_hooks(model_.parameters()));
  if (ModelEngine* engine = model_.engine()) return engine->forward(std::move(batch));
  return call(s_, model_.module(), std::move(batch));
}

void TrainingLoop::backward() {
  if (ModelEngine* engine = model_.engine()) return engine->backward(loss_);
  const Tensor loss =
      settings_.divides_in_backward ? div(s_, loss_, settings_.micro_batches) : loss_;
  eager::backward(s_, scaler_ ? scaler_->scale(s_, loss) : loss);
}

Tensors TrainingLoop::optimizer_states() const {
  Tensors states;
  const auto add = [&](const ParameterOptimizer& optimizer) {
    for (const ParameterOptimizer::State& state : optimizer.states())
      for (const Tensor& tensor :
           {state.step, state.first_moment, state.second_moment, state.greatest_moment,
            state.first_scales, state.second_scales, state.scale})
        if (tensor) states.push_back(tensor);
    for (const Tensor& table : optimizer.code_tables()) states.push_back(table);
  };
  add(own_ ? own_->optimizer : optimizer_);
  for (const auto& of_parameter : in_backward_) add(*of_parameter);
  if (const ModelEngine* engine = model_.engine())
    for (const ParameterOptimizer& group : engine->optimizers()) add(group);
  return states;
}

void TrainingLoop::micro_batch(int number, const Probe& probe) {
  const bool last = number == settings_.micro_batches - 1;
  const std::shared_ptr<void> scope =
      settings_.syncs_once && !last ? model_.without_sync(s_) : nullptr;
  {
    std::optional<Autocast> autocast;
    if (settings_.autocast) autocast.emplace(s_, *settings_.autocast);
    probe(Moment::micro_batch, number);
    forward_and_loss(number, probe);
  }
  probe(Moment::loss, number);
  backward();
  if (settings_.metric_losses > 0) measure(number);
  // Trainer.training_step returns a detached loss: the graph goes with it.
  if (settings_.objective != Objective::next_token) loss_.reset();
  probe(Moment::backward, number);
  if (!settings_.holds_logits) {
    loss_.reset();
    chunks_.clear();
  }
  if (settings_.drops_logits && !last) drop_logits();
  // Ends a micro-batch: only after the last one is there a step.
  if (ModelEngine* engine = model_.engine(); engine && !last) engine->step();
}

namespace {

Tensor rows_of(Session& s, const Tensor& logits) {
  return reshape(s, logits, {-1, logits.size(-1)});
}

}  // namespace

Tensor TrainingLoop::loss_after_model(const Tensor& labels) {
  Tensor rows = to(s_, view(s_, logits_, {-1, logits_.size(-1)}), Dtype::float32);
  return cross_entropy(s_, std::move(rows), view(s_, labels, {-1}));
}

/// CEWithChunkedOutputLoss.forward; `chunks` are what the model returned, of which the first is
/// none.
Tensor TrainingLoop::loss_of_chunks(Tensors chunks, const Tensor& labels) {
  const Tensor labelled = sum(s_, compare(s_, Comparison::ne, labels, -100));
  Tensor total;
  std::int64_t begin = 0;
  for (std::size_t i = 1; i < chunks.size(); ++i) {
    const std::int64_t tokens = chunks[i].size(1);
    const Tensor targets = contiguous(s_, slice(s_, labels, 1, begin, begin + tokens));
    begin += tokens;
    Tensor rows = to(s_, view(s_, chunks[i], {-1, chunks[i].size(-1)}), Dtype::float32);
    Tensor loss = cross_entropy(s_, std::move(rows), view(s_, targets, {-1}));
    total = total ? add(s_, total, loss) : std::move(loss);
  }
  return div(s_, total, labelled);
}

/// `chunks_` are what the model returned, of which the first is none. The last token of a sequence
/// has no label.
Tensor TrainingLoop::loss_of_token_chunks(const Tensor& labels) {
  const std::int64_t length = labels.size(1) - 1, size = settings_.loss_chunk_tokens;
  Tensors rows;
  if (chunks_.size() > 2) {
    chunks_.back() = slice(s_, chunks_.back(), 1, 0, chunks_.back().size(1) - 1);
    for (std::size_t i = 1; i < chunks_.size(); ++i)
      if (chunks_[i].size(1) > 0) rows.push_back(rows_of(s_, chunks_[i]));
  } else {
    rows = split(s_, rows_of(s_, slice(s_, chunks_[1], 1, 0, length)), size, 0);
  }
  const Tensor targets = slice(s_, labels, 1, 1);
  const Tensor flat = reshape(s_, targets, {-1});
  Tensors losses;
  std::int64_t begin = 0;
  for (const Tensor& part : rows) {
    const std::int64_t end = begin + part.size(0);
    Tensor loss = cross_entropy(s_, part, slice(s_, flat, 0, begin, end));
    losses.push_back(view(s_, std::move(loss), {1}));
    begin = end;
  }
  const Tensor labelled = sum(s_, compare(s_, Comparison::ne, targets, -100));
  return div(s_, sum(s_, cat(s_, losses)), maximum(s_, labelled, ones_like(s_, labelled)));
}

Tensor TrainingLoop::evaluated(std::int64_t sequences) {
  if (exported_) return exported_->loss(s_, call(s_, model_.module(), batch_of(0)));
  if (sequences == 0) return forward({ids_of(0), mask_of(0), labels_of(0)})[1];
  if (settings_.objective == Objective::preference) sequences *= 2;
  const Tensor ids = tokens(sequences, settings_.length);
  const Tensor mask = settings_.pads ? tokens(sequences, settings_.length) : Tensor();
  const Tensor labels = tokens(sequences, settings_.length);
  return forward({ids, mask, labels})[1];
}

void TrainingLoop::measure(int number) {
  const NoGrad no_grad(s_);
  for (int i = 0; i < settings_.metric_losses; ++i) loss_after_model(labels_of(number));
  if (!settings_.holds_logits) logits_.reset();
}

/// Without a graph, and without checkpointing.
Tensors TrainingLoop::reference_outputs(int number) {
  const NoGrad no_grad(s_);
  if (settings_.reference == ReferencePolicy::copy)
    return scored(call(s_, reference_->module(), batch_of(number)), number);
  const WithoutAdapters disabled(model_.module());
  return scored(forward(batch_of(number)), number);
}

/// Of whole logits, where the model's head made them.
Tensors TrainingLoop::scored(Tensors outputs, int number) {
  if (settings_.loss == LossPlace::in_model) return outputs;
  Tensor logits = std::move(outputs[1]);
  outputs.clear();
  const Tensor& labels = labels_of(number);
  if (settings_.scores_kept_logits) return outputs_of_kept_logits(s_, logits, labels);
  return outputs_of_logits(s_, std::move(logits), labels);
}

void TrainingLoop::forward_and_objective(int number, const Probe& probe) {
  const bool compares = settings_.reference != ReferencePolicy::none;
  Tensors before;
  // GRPO has the reference's log-probabilities before the step begins.
  if (compares && settings_.objective == Objective::policy) before = reference_outputs(number);
  Tensors outputs = forward(batch_of(number));
  probe(Moment::forward, number);
  outputs = scored(std::move(outputs), number);
  if (settings_.objective == Objective::supervised) {
    loss_ = supervised_loss(s_, outputs);
  } else if (settings_.objective == Objective::preference) {
    if (compares) before = reference_outputs(number);
    loss_ = preference_loss(s_, outputs, before);
  } else {
    loss_ = policy_loss(s_, outputs, settings_.prompt, before);
  }
}

void TrainingLoop::forward_and_loss(int number, const Probe& probe) {
  if (exported_) {
    Tensors outputs = forward(batch_of(number));
    probe(Moment::forward, number);
    loss_ = exported_->loss(s_, std::move(outputs));
  } else if (settings_.objective != Objective::next_token) {
    forward_and_objective(number, probe);
  } else if (settings_.loss == LossPlace::in_model) {
    Tensors outputs = forward(batch_of(number));
    loss_ = outputs[0];
    model_loss_ = settings_.holds_logits ? outputs[0] : Tensor();
    logits_ = settings_.holds_logits ? outputs[1] : Tensor();
    outputs.clear();
    probe(Moment::forward, number);
  } else if (settings_.loss_chunk_tokens > 0) {
    chunks_ = forward(batch_of(number));
    probe(Moment::forward, number);
    loss_ = loss_of_token_chunks(labels_of(number));
  } else if (settings_.loss_chunks > 1) {
    Tensors chunks = forward(batch_of(number));
    probe(Moment::forward, number);
    loss_ = loss_of_chunks(std::move(chunks), labels_of(number));
  } else {
    logits_ = forward(batch_of(number))[1];
    probe(Moment::forward, number);
    loss_ = loss_after_model(labels_of(number));
    if (!settings_.holds_logits && settings_.metric_losses == 0) logits_.reset();
  }
  if (settings_.micro_batches > 1 && !model_.engine() && !settings_.divides_in_backward)
    loss_ = div(s_, loss_, settings_.micro_batches);
}

}  // namespace shardscope::eager
