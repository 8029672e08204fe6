#include "core/pytorch/parallel/stage.h"

#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager::parallel {

Tensor Stage::receive_buffer() const {
  return allocate(s_, {setup_.dtype, s_.settings.device}, setup_.activation);
}

Tensor Stage::forward(const Tensor& input, int micro_batch, const StageWatcher& watch) {
  if (!is_first()) input.set_requires_grad(true);
  watch("forward", index(), micro_batch);
  Chunk chunk{
      .input = input,
      .output = setup_.module.forward(input, setup_.more ? setup_.more(micro_batch) : Tensors{}),
      .edge = {}};
  watch("schedule", index(), micro_batch);
  if (!is_last())
    chunk.edge = gradient_edge(s_, chunk.output);
  else if (setup_.returns_outputs)
    outputs_.push_back(chunk.output);
  Tensor output = chunk.output;
  chunks_.emplace(micro_batch, std::move(chunk));
  return output;
}

void Stage::release_output(int micro_batch) {
  const auto chunk = chunks_.find(micro_batch);
  // DDP builds its reducer from the outputs.
  if (chunk != chunks_.end() && !is_last() && !setup_.module.is_replicated())
    chunk->second.output.reset();
}

void Stage::run_full(const Edge& edge, const Tensor& gradient, bool last) {
  setup_.module.backward(
      last, [&] { s_.engine().grad({.outputs = {edge}, .gradients = {gradient}, .inputs = {}}); });
}

void Stage::detach_kept_output(const Chunk& chunk) const {
  if (is_last()) chunk.output->grad_fn.reset();
}

Tensor Stage::backward(const BackwardInput& input, int micro_batch, const StageWatcher& watch) {
  Chunk chunk = std::move(chunks_.extract(micro_batch).mapped());
  watch("backward", index(), micro_batch);
  if (is_last())
    setup_.module.backward(input.last, [&] { eager::backward(s_, input.loss); });
  else
    run_full(std::exchange(chunk.edge, {}), input.gradient, input.last);
  watch("schedule", index(), micro_batch);
  detach_kept_output(chunk);
  if (is_first()) return {};
  Tensor gradient = chunk.input.grad();
  chunk.input.set_grad({});  // the loss holds its graph, and so the input
  return gradient;
}

Tensor Stage::backward_for_input(const BackwardInput& input, int micro_batch,
                                 const StageWatcher& watch) {
  Chunk chunk = std::move(chunks_.extract(micro_batch).mapped());
  Pending pending{.input = chunk.input,
                  .output = is_last() ? input.loss : chunk.output,
                  .edge = std::move(chunk.edge),
                  .gradient = input.gradient,
                  .groups = {}};
  watch("backward_input", index(), micro_batch);
  Tensor result;
  // All of the first stage's backward is for its weights.
  if (!is_first()) {
    if (is_last()) pending.edge = gradient_edge(s_, input.loss);
    setup_.module.backward(input.last, [&] {
      const Tensor gradient = is_last() ? ones_like(s_, input.loss) : input.gradient;
      result = stage_backward_input(s_, pending.edge, gradient, chunk.input,
                                    setup_.module.parameters(), pending.groups);
      if (pending.output.defined()) pending.output->grad_fn.reset();
    });
    pending.edge = {};
  }
  watch("schedule", index(), micro_batch);
  detach_kept_output(chunk);
  pending_.emplace(micro_batch, std::move(pending));
  return result;
}

void Stage::backward_for_weights(int micro_batch, bool last, const StageWatcher& watch) {
  Pending pending = std::move(pending_.extract(micro_batch).mapped());
  watch("backward_weight", index(), micro_batch);
  if (is_first())
    run_full(std::exchange(pending.edge, {}), pending.gradient, last);
  else
    setup_.module.backward(
        last, [&] { stage_backward_weight(s_, setup_.module.parameters(), pending.groups); });
  watch("schedule", index(), micro_batch);
}

void Stage::merge_outputs() {
  const NoGrad no_grad(s_);
  if (!outputs_.empty()) cat(s_, outputs_, 0);
}

}  // namespace shardscope::eager::parallel
