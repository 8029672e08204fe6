#include "core/pytorch/parallel/pipeline.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager::parallel {
namespace {

constexpr Operator send_op{"c10d.send.default", OperatorKind::other};
constexpr Operator receive_op{"c10d.recv_.default", OperatorKind::other};

const Operator& operator_of(bool sends) { return sends ? send_op : receive_op; }

WorkId issue(Session& s, const ProcessGroup& group, const Tensor& tensor, int peer, bool sends) {
  const std::array<const TensorImpl*, 1> one{tensor.impl()};
  return s.collective({.kind = sends ? OperationKind::send : OperationKind::receive,
                       .name = operator_of(sends).name,
                       .group = GroupId::of(static_cast<std::size_t>(group.id)),
                       .elements_in = sends ? tensor.numel() : 0,
                       .elements_out = sends ? 0 : tensor.numel(),
                       .dtype = tensor.dtype(),
                       .root = peer,
                       .stream = s.stream,
                       .asynchronous = true,
                       .inputs = one,
                       .outputs = one});
}

/// GradientEdge of an output: its node, held by a tensor without memory.
Tensor edge_of(Session& s, const Tensor& output) {
  const Tensor edge = allocate(s, {output.dtype(), Device::meta}, output.sizes());
  edge->grad_fn = output.grad_fn();
  edge->output_number = output->output_number;
  return edge;
}

}  // namespace

std::vector<std::vector<std::pair<int, int>>> connection_rounds(int stages) {
  std::vector<std::vector<std::pair<int, int>>> rounds(stages > 2 ? 2 : 1);
  for (int stage = 0; stage + 1 < stages; ++stage)
    rounds[static_cast<std::size_t>(stage % 2)].push_back({stage, stage + 1});
  return rounds;
}

void PipelineStage::reduce_number(std::string_view reduction) {
  const Tensor number = zeros(s_, {1}, {Dtype::int32, s_.settings.device});
  all_reduce(s_, *setup_.group, number, reduction);
}

void PipelineStage::exchange_number(int peer, bool sends) {
  const Tensor number = zeros(s_, {1}, {Dtype::int32, s_.settings.device});
  Batch batch{.transfers = {{number, peer, sends}}, .works = {}};
  wait(batch);
}

/// Once: do all ranks know their shapes, then one number between each two that talk.
void PipelineStage::connect() {
  if (connected_) return;
  connected_ = true;
  reduce_number("MIN");
  for (const auto& round : connection_rounds(setup_.group->size())) {
    for (const auto& [from, to] : round) {
      if (from == stage()) exchange_number(to, true);
      if (to == stage()) exchange_number(from, false);
    }
    reduce_number("SUM");
  }
}

Tensor PipelineStage::receive_buffer() const {
  return allocate(s_, {setup_.dtype, s_.settings.device}, setup_.activation);
}

void PipelineStage::send(Batch& batch, const Tensor& tensor, int peer) {
  batch.transfers.push_back({tensor, peer, true});
}

void PipelineStage::post(Batch& batch) {
  const std::span<const Transfer> fresh = std::span(batch.transfers).subspan(batch.works.size());
  for (const Transfer& one : fresh)
    batch.works.push_back(issue(s_, *setup_.group, one.tensor, one.peer, one.sends));
  for (const Transfer& one : fresh)
    dispatched(s_, operator_of(one.sends), {&one.tensor}, {&one.tensor});
}

void PipelineStage::post_send(Batch& batch, const Tensor& tensor, int peer) {
  send(batch, tensor, peer);
  post(batch);
}

void PipelineStage::wait(Batch& batch) {
  post(batch);
  for (const WorkId work : batch.works) s_.wait_work(work);
  batch = {};
}

Tensor PipelineStage::receive_forward(Batch& batch) {
  if (is_first()) return {};
  Tensor buffer = receive_buffer();
  batch.transfers.push_back({buffer, stage() - 1, false});
  return buffer;
}

Tensor PipelineStage::receive_backward(Batch& batch) {
  if (is_last()) return {};
  Tensor buffer = receive_buffer();
  batch.transfers.push_back({buffer, stage() + 1, false});
  return buffer;
}

void PipelineStage::forward(const Tensor& input, int micro_batch, const StageWatcher& watch) {
  if (!is_first()) input.set_requires_grad(true);
  watch("forward", stage(), micro_batch);
  Chunk chunk{.input = input, .output = call_one(s_, *setup_.module, {input}), .edge = {}};
  watch("schedule", stage(), micro_batch);
  if (is_last())
    outputs_.push_back(chunk.output);
  else
    chunk.edge = edge_of(s_, chunk.output);
  chunks_.emplace(micro_batch, std::move(chunk));
}

void PipelineStage::add_loss(int micro_batch) {
  if (is_last()) losses_.push_back(setup_.loss(s_, chunks_.at(micro_batch).output, micro_batch));
}

void PipelineStage::release_output(int micro_batch) {
  const auto chunk = chunks_.find(micro_batch);
  if (chunk != chunks_.end() && !is_last()) chunk->second.output.reset();
}

/// The gradient of the stage's input; None of the first one's.
Tensor PipelineStage::backward_one(const Tensor& gradient, int micro_batch,
                                   const StageWatcher& watch) {
  const Chunk chunk = std::move(chunks_.extract(micro_batch).mapped());
  watch("backward", stage(), micro_batch);
  setup_.before_backward();
  if (is_last())
    backward(s_, losses_[static_cast<std::size_t>(micro_batch)]);
  else
    backward(s_, chunk.edge, gradient);
  watch("schedule", stage(), micro_batch);
  // detach_(): an output that is kept lets go of its graph.
  if (is_last()) chunk.output->grad_fn.reset();
  return is_first() ? Tensor() : chunk.input.grad();
}

void PipelineStage::gpipe(const Tensors& micro_batches, const StageWatcher& watch) {
  std::vector<Batch> sends(micro_batches.size());
  const int count = setup_.micro_batches;
  for (int i = 0; i < count; ++i) {
    Batch received;
    Tensor input = receive_forward(received);
    wait(received);
    forward(is_first() ? micro_batches[static_cast<std::size_t>(i)] : input, i, watch);
    if (!is_last())
      post_send(sends[static_cast<std::size_t>(i)], chunks_.at(i).output, stage() + 1);
    add_loss(i);
  }
  for (int i = 0; i < count; ++i) {
    wait(sends[static_cast<std::size_t>(i)]);
    release_output(i);
  }
  for (int i = 0; i < count; ++i) {
    Batch received;
    const Tensor gradient = receive_backward(received);
    wait(received);
    const Tensor back = backward_one(gradient, i, watch);
    if (back.defined()) post_send(sends[static_cast<std::size_t>(i)], back, stage() - 1);
  }
  for (Batch& batch : sends) wait(batch);
}

void PipelineStage::one_forward_one_backward(const Tensors& micro_batches,
                                             const StageWatcher& watch) {
  const int count = setup_.micro_batches;
  const int warmup = std::min(count, setup_.group->size() - stage());
  int forwards = 0, backwards = 0;
  Batch sent;
  const auto input_of = [&](const Tensor& received) {
    return is_first() ? micro_batches[static_cast<std::size_t>(forwards)] : received;
  };
  for (; forwards < warmup; ++forwards) {
    Batch received;
    const Tensor buffer = receive_forward(received);
    wait(received);
    forward(input_of(buffer), forwards, watch);
    if (forwards > 0) {
      wait(sent);
      release_output(forwards - 1);
    }
    if (forwards != warmup - 1 && !is_last())
      post_send(sent, chunks_.at(forwards).output, stage() + 1);
    add_loss(forwards);
  }
  Tensor back;
  while (true) {
    Batch both;
    if (!is_last()) send(both, chunks_.at(forwards - 1).output, stage() + 1);
    const Tensor gradient = receive_backward(both);
    wait(both);
    release_output(forwards - 1);
    back = backward_one(gradient, backwards, watch);
    ++backwards;
    if (forwards == count) break;
    if (back.defined()) send(both, back, stage() - 1);
    const Tensor buffer = receive_forward(both);
    wait(both);
    forward(input_of(buffer), forwards, watch);
    add_loss(forwards);
    ++forwards;
  }
  if (back.defined()) post_send(sent, back, stage() - 1);
  for (; backwards < count; ++backwards) {
    Batch received;
    const Tensor gradient = receive_backward(received);
    wait(received);
    back = backward_one(gradient, backwards, watch);
    wait(sent);
    if (back.defined()) post_send(sent, back, stage() - 1);
  }
  wait(sent);
}

/// The outputs of all micro-batches as one, which the caller lets go.
void PipelineStage::merge_outputs() {
  const NoGrad no_grad(s_);
  if (!outputs_.empty()) cat(s_, outputs_, 0);
}

void PipelineStage::step(const Tensors& micro_batches, const StageWatcher& watch) {
  outputs_.clear();
  connect();
  if (setup_.schedule == PipelineSchedule::gpipe)
    gpipe(micro_batches, watch);
  else
    one_forward_one_backward(micro_batches, watch);
  losses_.clear();
  setup_.after_step();
  merge_outputs();
}

}  // namespace shardscope::eager::parallel
