#include "core/pytorch/parallel/single_stage_run.h"

#include <algorithm>
#include <utility>

namespace shardscope::eager::parallel {

SingleStageRun::SingleStageRun(Session& s, const PipelineSetup& setup, const ProcessGroup& group,
                               StageSetup stage, StageLoss loss)
    : s_(s),
      setup_(setup),
      channel_(s, group),
      stage_(s, std::move(stage)),
      loss_(std::move(loss)) {}

Tensor SingleStageRun::receive_forward(TransferBatch& batch) const {
  if (stage_.is_first()) return {};
  Tensor buffer = stage_.receive_buffer();
  batch.transfers.push_back({buffer, stage_.index() - 1, false});
  return buffer;
}

Tensor SingleStageRun::receive_backward(TransferBatch& batch) const {
  if (stage_.is_last()) return {};
  Tensor buffer = stage_.receive_buffer();
  batch.transfers.push_back({buffer, stage_.index() + 1, false});
  return buffer;
}

void SingleStageRun::forward(const Tensor& input, int micro_batch, const StageWatcher& watch) {
  stage_.forward(input, micro_batch, watch);
}

void SingleStageRun::add_loss(int micro_batch) {
  if (stage_.is_last()) losses_.push_back(loss_(s_, stage_.output_of(micro_batch), micro_batch));
}

/// The gradient of the stage's input; None of the first one's.
Tensor SingleStageRun::backward(const Tensor& gradient, int micro_batch,
                                const StageWatcher& watch) {
  return stage_.backward(
      {.loss = stage_.is_last() ? losses_[static_cast<std::size_t>(micro_batch)] : Tensor(),
       .gradient = gradient,
       .last = micro_batch + 1 == setup_.micro_batches},
      micro_batch, watch);
}

void SingleStageRun::gpipe(const Tensors& micro_batches, const StageWatcher& watch) {
  std::vector<TransferBatch> sends(micro_batches.size());
  const int count = setup_.micro_batches;
  for (int i = 0; i < count; ++i) {
    TransferBatch received;
    Tensor input = receive_forward(received);
    channel_.wait(received);
    forward(stage_.is_first() ? micro_batches[static_cast<std::size_t>(i)] : input, i, watch);
    if (!stage_.is_last())
      channel_.post_send(sends[static_cast<std::size_t>(i)], stage_.output_of(i),
                         stage_.index() + 1);
    add_loss(i);
  }
  for (int i = 0; i < count; ++i) {
    channel_.wait(sends[static_cast<std::size_t>(i)]);
    stage_.release_output(i);
  }
  for (int i = 0; i < count; ++i) {
    TransferBatch received;
    const Tensor gradient = receive_backward(received);
    channel_.wait(received);
    const Tensor back = backward(gradient, i, watch);
    if (back.defined())
      channel_.post_send(sends[static_cast<std::size_t>(i)], back, stage_.index() - 1);
  }
  for (TransferBatch& batch : sends) channel_.wait(batch);
}

void SingleStageRun::one_forward_one_backward(const Tensors& micro_batches,
                                              const StageWatcher& watch) {
  const int count = setup_.micro_batches;
  const int warmup = std::min(count, setup_.ranks - stage_.index());
  int forwards = 0, backwards = 0;
  TransferBatch sent;
  const auto input_of = [&](const Tensor& received) {
    return stage_.is_first() ? micro_batches[static_cast<std::size_t>(forwards)] : received;
  };
  for (; forwards < warmup; ++forwards) {
    TransferBatch received;
    const Tensor buffer = receive_forward(received);
    channel_.wait(received);
    forward(input_of(buffer), forwards, watch);
    if (forwards > 0) {
      channel_.wait(sent);
      stage_.release_output(forwards - 1);
    }
    if (forwards != warmup - 1 && !stage_.is_last())
      channel_.post_send(sent, stage_.output_of(forwards), stage_.index() + 1);
    add_loss(forwards);
  }
  Tensor back;
  while (true) {
    TransferBatch both;
    if (!stage_.is_last())
      both.transfers.push_back({stage_.output_of(forwards - 1), stage_.index() + 1, true});
    const Tensor gradient = receive_backward(both);
    channel_.wait(both);
    stage_.release_output(forwards - 1);
    back = backward(gradient, backwards, watch);
    ++backwards;
    if (forwards == count) break;
    if (back.defined()) both.transfers.push_back({back, stage_.index() - 1, true});
    const Tensor buffer = receive_forward(both);
    channel_.wait(both);
    forward(input_of(buffer), forwards, watch);
    add_loss(forwards);
    ++forwards;
  }
  if (back.defined()) channel_.post_send(sent, back, stage_.index() - 1);
  for (; backwards < count; ++backwards) {
    TransferBatch received;
    const Tensor gradient = receive_backward(received);
    channel_.wait(received);
    back = backward(gradient, backwards, watch);
    channel_.wait(sent);
    if (back.defined()) channel_.post_send(sent, back, stage_.index() - 1);
  }
  channel_.wait(sent);
}

void SingleStageRun::step(const Tensors& micro_batches, const StageWatcher& watch) {
  stage_.clear_outputs();
  channel_.connect(rank_of_stages(setup_));
  if (setup_.kind == PipelineScheduleKind::gpipe)
    gpipe(micro_batches, watch);
  else
    one_forward_one_backward(micro_batches, watch);
  losses_.clear();
  stage_.module().start_reduction();
  stage_.module().end_reduction();
  stage_.merge_outputs();
}

}  // namespace shardscope::eager::parallel
