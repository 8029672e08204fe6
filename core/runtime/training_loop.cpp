#include "core/runtime/training_loop.h"

#include "core/lower/pytorch/aten/copies.h"
#include "core/lower/pytorch/aten/loss.h"
#include "core/lower/pytorch/aten/pointwise.h"
#include "core/lower/pytorch/aten/views.h"
#include "core/lower/pytorch/autocast.h"
#include "core/lower/pytorch/engine.h"

namespace shardscope::eager {

TrainingLoop::TrainingLoop(Session& s, ParallelModel& model, const TrainingSettings& settings)
    : s_(s),
      model_(model),
      settings_(settings),
      optimizer_(model.parameters(), settings.optimizer) {
  const Like tokens{Dtype::int64, s.settings.device};
  for (int i = 0; i < 2 * settings.micro_batches; ++i)
    inputs_.push_back(zeros(s, {settings.batch, settings.length}, tokens));
}

void TrainingLoop::iteration(const Probe& probe) {
  probe(Moment::start, 0);
  for (int i = 0; i < settings_.micro_batches; ++i) micro_batch(i, probe);
  const int last = settings_.micro_batches - 1;
  if (settings_.clips) {
    model_.clip(s_);
    probe(Moment::clip, last);
  }
  optimizer_.step(s_);
  probe(Moment::step, last);
  optimizer_.zero_grad(s_, settings_.zero_grad_to_none);
  probe(Moment::zero_grad, last);
}

void TrainingLoop::micro_batch(int number, const Probe& probe) {
  const bool last = number == settings_.micro_batches - 1;
  const std::shared_ptr<void> scope =
      settings_.syncs_once && !last ? model_.without_sync(s_) : nullptr;
  {
    std::optional<Autocast> autocast;
    if (settings_.autocast) autocast.emplace(s_, *settings_.autocast);
    forward_and_loss(number, probe);
  }
  probe(Moment::loss, number);
  backward(s_, loss_);
  probe(Moment::backward, number);
  if (!settings_.holds_logits) loss_.reset();
}

void TrainingLoop::forward_and_loss(int number, const Probe& probe) {
  const auto place = 2 * static_cast<std::size_t>(number);
  const Tensor& ids = inputs_[place];
  const Tensor& labels = inputs_[place + 1];
  if (settings_.loss == LossPlace::in_model) {
    Tensors outputs = call(s_, model_.module(), {ids, Tensor(), labels});
    loss_ = outputs[0];
    logits_ = settings_.holds_logits ? outputs[1] : Tensor();
    outputs.clear();
    probe(Moment::forward, number);
  } else {
    logits_ = call(s_, model_.module(), {ids, Tensor(), Tensor()})[1];
    probe(Moment::forward, number);
    Tensor rows = to(s_, view(s_, logits_, {-1, logits_.size(-1)}), Dtype::float32);
    loss_ = cross_entropy(s_, std::move(rows), view(s_, labels, {-1}));
    if (!settings_.holds_logits) logits_.reset();
  }
  if (settings_.micro_batches > 1) loss_ = div(s_, loss_, settings_.micro_batches);
}

}  // namespace shardscope::eager
