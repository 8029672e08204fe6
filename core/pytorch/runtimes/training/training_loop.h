// Training iterations on the eager engine: forward, loss, backward, clipping, optimizer, zero_grad.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "core/pytorch/engine/models/exported.h"
#include "core/pytorch/runtimes/common/optimizer.h"
#include "core/pytorch/runtimes/ddp/zero_redundancy_optimizer.h"
#include "core/pytorch/runtimes/training/parallel_model.h"
#include "core/pytorch/runtimes/training/trl_losses.h"

namespace shardscope::eager {

/// Where the loss is computed: by the model, which is given the labels, or by cross_entropy of its
/// logits in fp32 after it.
enum class LossPlace : std::uint8_t { in_model, after_model };

struct TrainingSettings {
  std::int64_t batch = 1;  ///< sequences in a micro-batch
  std::int64_t length = 128;
  /// Of each micro-batch, in their order; of those beyond its end and without it `length`, the
  /// longest. More than an iteration has micro-batches: the next iteration goes on where this one
  /// ended.
  std::vector<std::int64_t> lengths = {};
  /// Sequences of a micro-batch differ in length: all but the longest are padded, and the model
  /// gets an attention mask.
  bool pads = false;
  /// The sequences of a micro-batch lie one after the other in a single row.
  bool flattens = false;
  int micro_batches = 1;  ///< a model with an engine: its accumulation steps
  /// Gradients of all micro-batches but the last are not communicated.
  bool syncs_once = false;
  LossPlace loss = LossPlace::in_model;
  /// TRL's: with the loss in the model, whose head is LanguageLoss::tiled. With the loss after it,
  /// a preference has whole logits.
  Objective objective = Objective::next_token;
  ReferencePolicy reference = ReferencePolicy::none;
  std::int64_t prompt = 0;  ///< TiledHead::prompt
  /// Of a preference with whole logits: ms-swift's score, of what logits there are.
  bool scores_kept_logits = false;
  /// With the loss after the model: parts of the logits that it returns
  /// (ModelSettings::logit_chunks), each with a cross-entropy of its own. Source: torchtune,
  /// CEWithChunkedOutputLoss.
  int loss_chunks = 1;
  /// With the loss after the model, which returns logits whole or in parts of so many tokens:
  /// the cross-entropy in such parts, and the logits of a variable that lives until the next ones
  /// are there. 0: none. Source: litgpt 00af8b0d, utils.py, chunked_cross_entropy.
  std::int64_t loss_chunk_tokens = 0;
  /// The loss over micro-batches is a tensor beside the loss, even of one micro-batch:
  /// Accelerator.backward.
  bool divides_in_backward = false;
  /// A variable holds logits and loss until the next forward has returned.
  bool holds_logits = false;
  /// With holds_logits: the loop sets the variable to None after each micro-batch and its step.
  bool drops_logits = false;
  /// Losses of the logits after the backward, without gradients: metrics of a trainer. Composer's
  /// LanguageCrossEntropy and LanguagePerplexity are two. Only with the loss after the model.
  int metric_losses = 0;
  std::optional<Dtype> autocast = {};  ///< around forward and loss
  /// A GradScaler, as float16 needs; an engine has its own.
  bool scales_loss = false;
  bool clips = false;
  OptimizerSettings optimizer = {};
  /// Norms and biases are a group of their own, which does not decay: Trainer.create_optimizer.
  /// Only an engine asks, which flattens group by group.
  bool groups_by_decay = false;
  /// A parameter is updated as soon as it has its gradient, which goes then. Needs one micro-batch
  /// and no clipping. Source: torchtune 0.6, training/memory.py, register_optim_in_bwd_hooks.
  bool steps_in_backward = false;
  /// What the model's forward saves waits on the host (activation_offloading.h).
  bool offloads_activations = false;
  /// ZeroRedundancyOptimizer around the optimizer: a rank keeps states of a part of the parameters.
  bool zero_redundancy = false;
  bool zero_grad_to_none = true;

  /// Of a micro-batch: of a preference each has two.
  std::int64_t sequences() const { return objective == Objective::preference ? 2 * batch : batch; }
};

/// Points of an iteration at which a caller may look at what there is.
enum class Moment : std::uint8_t {
  start,
  micro_batch,  ///< its forward begins, under the runtime's and autocast's scopes
  forward,      ///< its end; with the loss in the model both at once
  loss,         ///< after the loss
  backward,     ///< after it
  clip,         ///< after it, where there is clipping
  step,         ///< after it
  zero_grad,    ///< after it
};

class TrainingLoop {
 public:
  /// Called at each moment; `micro_batch` counts from 0.
  using Probe = std::function<void(Moment moment, int micro_batch)>;

  /// Makes the optimizer and the batches. `world` are all ranks. Both must outlive the loop.
  /// `exported`: of a model that an export describes, else null.
  TrainingLoop(Session& s, ParallelModel& model, const ProcessGroup& world,
               const TrainingSettings& settings, std::shared_ptr<ExportedModel> exported = {});

  /// `left_out`: so many of its micro-batches, from the first on, are not run.
  void iteration(const Probe& probe, int left_out = 0);
  /// The model of ReferencePolicy::copy.
  void set_reference(std::unique_ptr<ParallelModel> reference) {
    reference_ = std::move(reference);
  }
  /// Null: none.
  Module* reference() const { return reference_ ? &reference_->module() : nullptr; }
  /// What an evaluation keeps of a forward of `sequences`, or pairs: its logits. 0: of the first
  /// training batch. An export has the batch that it was traced with, and keeps its loss.
  Tensor evaluated(std::int64_t sequences = 0);
  /// The function that loops returns: its variables go.
  void finish() {
    logits_.reset();
    chunks_.clear();
    loss_.reset();
    model_loss_.reset();
  }
  /// State of the optimizer, wherever it lives; none before the first step.
  Tensors optimizer_states() const;
  const ParameterOptimizer& optimizer() const { return optimizer_; }
  /// optimizer.state.clear(), of an optimizer that was given what is trained and nothing else.
  void drop_optimizer_state() {
    Tensors trained;
    for (const Tensor& parameter : optimizer_.parameters())
      if (parameter.requires_grad()) trained.push_back(parameter);
    optimizer_ = optimizer_of(std::move(trained));
  }
  /// It lets go of its parameters, too.
  void drop_optimizer() { optimizer_ = ParameterOptimizer({}, settings_.optimizer); }
  const TrainingSettings& settings() const { return settings_; }
  /// register_step_post_hook of the optimizer.
  void after_step(std::function<void(Session&)> hook) { after_step_ = std::move(hook); }
  /// The batches' storages: token ids and labels of each micro-batch.
  const Tensors& inputs() const { return inputs_; }

 private:
  /// The optimizer of the parameters that this rank owns.
  struct OwnPart {
    OwnPart(Session& s, const ProcessGroup& world, const ParameterOptimizer& whole);
    ddp::ZeroRedundancyOptimizer shared;
    ParameterOptimizer optimizer;
  };

  void micro_batch(int number, const Probe& probe);
  void drop_logits();
  Tensors forward(Arguments batch);
  void backward();
  void update(const Probe& probe);
  void step_optimizer();
  void forward_and_loss(int number, const Probe& probe);
  Tensors reference_outputs(int number);
  Tensors scored(Tensors outputs, int number);
  void forward_and_objective(int number, const Probe& probe);
  Tensor loss_after_model(const Tensor& labels);
  Tensor loss_of_chunks(Tensors chunks, const Tensor& labels);
  Tensor loss_of_token_chunks(const Tensor& labels);
  void measure(int number);
  Arguments batch_of(int number) const;
  Tensor mask_of(int number) const;
  const Tensor& ids_of(int number) const { return inputs_[2 * place_of(number)]; }
  const Tensor& labels_of(int number) const { return inputs_[2 * place_of(number) + 1]; }
  void make_batches();
  bool goes_on() const {
    return settings_.lengths.size() > static_cast<std::size_t>(settings_.micro_batches);
  }
  std::size_t place_of(int number) const;
  Tensor tokens(std::int64_t sequences, std::int64_t length) const;
  void step_in_backward();
  ParameterOptimizer optimizer_of(Tensors parameters);

  Session& s_;
  ParallelModel& model_;
  TrainingSettings settings_;
  ParameterOptimizer optimizer_;  ///< of all parameters
  std::optional<OwnPart> own_;    ///< what steps in its place under ZeroRedundancyOptimizer
  /// One of each parameter, in its place where there are steps in the backward.
  std::vector<std::unique_ptr<ParameterOptimizer>> in_backward_;
  std::optional<GradScaler> scaler_;
  std::function<void(Session&)> after_step_;
  std::shared_ptr<ExportedModel> exported_;
  std::unique_ptr<ParallelModel> reference_;
  Tensors inputs_;
  Tensors masks_;          ///< one a micro-batch, where there are any
  std::size_t first_ = 0;  ///< of the batches, in this iteration
  Tensor logits_, loss_;   // the loop's variables
  Tensor model_loss_;      // of the model's output, which a variable holds
  Tensors chunks_;         // logits of loss_chunk_tokens
};

}  // namespace shardscope::eager
