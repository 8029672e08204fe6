#include "core/pytorch/engine/adapters/unsloth_checkpoint.h"

#include <utility>

#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

constexpr std::size_t host_buffers = 200;
constexpr std::int64_t host_elements = 128 * 1024;
constexpr std::int64_t device_elements = 2 * 256 * 2048;
constexpr std::int64_t least_bytes = 2 * 1024 * 1024;  // MINIMUM_SIZE

/// The gradients of `inputs` from those of what `function` makes of them.
Tensors gradients_through(Session& s, const CheckpointedFunction& function, const Arguments& inputs,
                          const Tensors& gradients) {
  Tensors outputs;
  {
    const EnableGrad grad(s);
    const Scoped<bool> again(s.recomputing, true);
    outputs = function(s, inputs);
  }
  Engine::Request request;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].defined() && outputs[i].requires_grad()) {
      request.roots.push_back(outputs[i]);
      request.gradients.push_back(gradients[i]);
    }
  if (!request.roots.empty()) backward(s, std::move(request));
  Tensors results;
  for (const Tensor& input : inputs.tensors)
    results.push_back(input.defined() ? input.grad() : Tensor());
  return results;
}

}  // namespace

UnslothCheckpoints::UnslothCheckpoints(Session& s, Dtype dtype)
    : kind_{dtype, s.settings.device},
      side_(s.new_stream({.name = "unsloth", .stream = Stream::copy})) {
  for (std::size_t i = 0; i < host_buffers; ++i)
    host_.push_back(empty(s, {host_elements}, {dtype, Device::cpu}));
  for (Tensor& buffer : device_) buffer = empty(s, {device_elements}, kind_);
}

/// Tensor.resize_ of a buffer that has too few elements.
void UnslothCheckpoints::grow(Session& s, Tensor& buffer, std::int64_t elements) const {
  if (buffer.numel() < elements) buffer = empty(s, {elements}, like(buffer));
}

bool UnslothCheckpoints::offloads(const Tensor& input) {
  if (first_pass_) ++last_call_;
  ++call_;
  const bool is_last = call_ == last_call_ && !first_pass_;
  return input.bytes().count > least_bytes && !is_last;
}

UnslothCheckpoints::Place UnslothCheckpoints::offload(Session& s, const Tensor& input) {
  if (std::exchange(after_backward_, false)) {
    next_host_ = 0;
    doubles_ = !first_pass_;
  }
  const std::int64_t elements = input.numel();
  if (next_host_ >= host_.size())
    host_.push_back(empty(s, {elements}, {input.dtype(), Device::cpu}));
  grow(s, host_[next_host_], elements);
  grow(s, device_[0], elements);
  if (doubles_) grow(s, device_[1], elements);
  const Place place{.host = next_host_++,
                    .slot = std::exchange(next_slot_, 1 - next_slot_),
                    .elements = elements,
                    .sizes = input.sizes()};
  s.wait_stream(side_, s.stream);
  const Tensor kept = view(s, slice(s, host_[place.host], 0, 0, elements), place.sizes);
  const NoGrad no_grad(s);
  const OnStream on_side(s, side_);
  copy_(s, kept, input, true);
  return place;
}

Tensor UnslothCheckpoints::brought_back(Session& s, const Place& place) {
  const NoGrad no_grad(s);
  const Tensor& buffer = device_[doubles_ ? static_cast<std::size_t>(place.slot) : 0];
  const Tensor back = view(s, slice(s, buffer, 0, 0, place.elements), place.sizes);
  const Tensor kept = view(s, slice(s, host_[place.host], 0, 0, place.elements), place.sizes);
  s.wait_stream(side_, s.stream);
  {
    const OnStream on_side(s, side_);
    copy_(s, back, kept, true);
  }
  s.wait_stream(s.stream, side_);
  return back;
}

Tensors UnslothCheckpoints::run(Session& s, const CheckpointedFunction& function,
                                const Arguments& arguments) {
  const Tensors& inputs = arguments.tensors;
  const bool counts = inputs.front().requires_grad();
  auto place = std::make_shared<std::optional<Place>>();
  const auto forward = [&](Session& in, const NodeRef& node) {
    if (counts && offloads(inputs.front())) *place = offload(in, inputs.front());
    for (std::size_t i = 0; node && i < inputs.size(); ++i)
      if (i > 0 || !*place)
        node->save_listed(in, "saved_tensors", static_cast<std::int32_t>(i), inputs[i]);
    Tensors outputs = function(in, arguments);
    if (*place) in.wait_stream(in.stream, side_);
    return outputs;
  };
  const auto back = [this, place, function, count = inputs.size(),
                     positional = arguments.positional, autocast = s.autocast.enabled,
                     dtype = s.autocast.dtype](Session& in, Node& node,
                                               Tensors& gradients) -> Tensors {
    Tensors tensors(count);
    for (std::size_t i = *place ? 1 : 0; i < count; ++i)
      tensors[i] = node.saved_listed(in, "saved_tensors", static_cast<std::int32_t>(i));
    if (*place) tensors[0] = brought_back(in, **place);
    after_backward_ = true;
    first_pass_ = false;
    call_ = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!tensors[i].defined()) continue;
      const bool wants = (i == 0 && *place) || tensors[i].requires_grad();
      tensors[i] = detach(in, tensors[i]);
      if (wants) tensors[i].set_requires_grad(true);
    }
    const Autocast as_before(in, dtype, autocast);
    return gradients_through(in, function, Arguments(std::move(tensors), positional), gradients);
  };
  return apply_function(s, "UnslothCheckpointFunctionBackward", inputs, forward, back);
}

void unsloth_checkpoint_forward(Module& layer, std::shared_ptr<UnslothCheckpoints> checkpoints) {
  layer.forward = [checkpoints = std::move(checkpoints), forward = std::move(layer.forward)](
                      Session& s, Module& me, const Arguments& arguments) {
    if (!me.training || !s.grad_enabled) return forward(s, me, arguments);
    return checkpoints->run(
        s, [&forward, &me](Session& in, const Arguments& given) { return forward(in, me, given); },
        arguments);
  };
}

}  // namespace shardscope::eager
