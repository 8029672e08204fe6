#include "core/pytorch/engine/checkpoint.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/engine/autocast.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/saved_tensor_scope.h"
#include "core/pytorch/engine/selective.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager {
namespace {

/// _StopRecomputationError: how the real one, too, leaves the middle of a model's forward.
struct StopRecomputation {};

/// What backward gets instead of a saved tensor: recomputed ones by backward (graph task).
struct Holder {
  std::map<std::int64_t, Tensor> recomputed;
};

/// Autocast as it was in forward.
struct AutocastBefore {
  bool enabled;
  Dtype dtype;
};

/// cuda's set_rng_state copies the state it is given, a tensor of 16 bytes on the CPU, if CUDA has
/// not started: as with fake tensors. (That of the CPU is set without an operator.)
void set_rng_state(Session& s) {
  if (s.settings.device != Device::cuda || !s.settings.fake_tensors) return;
  const Tensor state = allocate(s, {Dtype::uint8, Device::cpu}, {16});
  clone_contiguous(s, state);
}

/// _CheckpointFrame.
struct Frame {
  CheckpointOptions options;
  CheckpointedFunction function;
  AutocastBefore autocast;
  std::vector<SavedTensor> saved;   ///< positional arguments; None ones are not in it
  Arguments arguments;              ///< the keyword ones; positional ones are None here
  std::vector<std::size_t> places;  ///< of `saved` in `arguments`
  std::vector<std::weak_ptr<Holder>> holders;
  std::map<std::int64_t, std::size_t> recomputed;  ///< tensors so far, by backward
  std::shared_ptr<SelectiveCache> cache;
};

void save_inputs(Session& s, Frame& frame, const Arguments& arguments) {
  frame.arguments = arguments;
  const std::size_t positional = arguments.positional < 0
                                     ? arguments.tensors.size()
                                     : static_cast<std::size_t>(arguments.positional);
  for (std::size_t i = 0; i < positional; ++i) {
    if (!arguments.tensors[i].defined()) continue;
    frame.saved.emplace_back(s, "", arguments.tensors[i], false);
    frame.places.push_back(i);
    frame.arguments.tensors[i].reset();
  }
}

Arguments get_inputs(Session& s, const Frame& frame) {
  Arguments arguments = frame.arguments;
  for (std::size_t i = 0; i < frame.saved.size(); ++i)
    arguments.tensors[frame.places[i]] = frame.saved[i].unpack(s, {});
  return arguments;
}

/// recompute_fn: under forward's autocast and random state.
void run_again(Session& s, const CheckpointOptions& options, const AutocastBefore& autocast,
               const std::function<void()>& run) {
  if (options.preserve_rng_state) set_rng_state(s);
  struct Restore {
    Session& s;
    bool rng;
    ~Restore() {
      if (rng) set_rng_state(s);
    }
  };
  const Restore restore{s, options.preserve_rng_state};
  const Autocast as_before(s, autocast.dtype, autocast.enabled);
  const Scoped<bool> again(s.recomputing, true);
  run();
}

/// _recomputation_hook's pack_hook.
std::shared_ptr<void> note_recomputed(Session& s, Frame& frame, std::int64_t task,
                                      const Tensor& tensor) {
  const auto kept = std::make_shared<Tensor>(tensor.requires_grad() ? detach(s, tensor) : tensor);
  const std::size_t index = frame.recomputed[task]++;
  if (index >= frame.holders.size())
    throw Error({.where = "checkpoint",
                 .what = fmt::format("saves more tensors in recomputation than the {} of forward",
                                     frame.holders.size()),
                 .way_out = {}});
  if (const auto holder = frame.holders[index].lock()) holder->recomputed[task] = *kept;
  if (frame.options.early_stop && index + 1 == frame.holders.size()) {
    s.held_by_frames.emplace();
    throw StopRecomputation{};
  }
  return kept;
}

std::shared_ptr<SavedTensorHooks> recomputation_hooks(const std::shared_ptr<Frame>& frame,
                                                      std::int64_t task) {
  auto hooks = std::make_shared<SavedTensorHooks>();
  hooks->pack = [weak = std::weak_ptr(frame), task](Session& s, const Tensor& tensor) {
    return note_recomputed(s, *weak.lock(), task, tensor);
  };
  hooks->unpack = [](Session&, const std::shared_ptr<void>& packed) {
    return *std::static_pointer_cast<Tensor>(packed);
  };
  return hooks;
}

void recompute(Session& s, const std::shared_ptr<Frame>& frame, std::int64_t task) {
  const Arguments arguments = get_inputs(s, *frame);
  frame->recomputed[task] = 0;
  try {
    const SavedTensorScope hooks(s, recomputation_hooks(frame, task));
    const EnableGrad grad(s);
    if (frame->cache) frame->cache->rewind();
    const Scoped<SelectiveCache*> replay(s.selective_replay, frame->cache.get());
    run_again(s, frame->options, frame->autocast, [&] { frame->function(s, arguments); });
  } catch (const StopRecomputation&) {
    const auto frames = std::exchange(s.held_by_frames, std::nullopt);
  }
  if (frame->recomputed[task] != frame->holders.size())
    throw Error({.where = "checkpoint",
                 .what = fmt::format("{} tensors saved in forward, {} in recomputation",
                                     frame->holders.size(), frame->recomputed[task]),
                 .way_out = {}});
}

/// _checkpoint_hook's unpack_hook.
Tensor recomputed(Session& s, const std::shared_ptr<Frame>& frame, Holder& holder) {
  const std::int64_t task = s.engine().graph_task_id();
  if (!frame->recomputed.contains(task)) recompute(s, frame, task);
  auto found = holder.recomputed.extract(task);
  if (found.empty())
    throw Error({.where = "checkpoint",
                 .what = "a saved tensor is asked for a second time in one backward",
                 .way_out = {}});
  return std::move(found.mapped());
}

std::shared_ptr<SavedTensorHooks> checkpoint_hooks(const std::shared_ptr<Frame>& frame) {
  auto hooks = std::make_shared<SavedTensorHooks>();
  hooks->pack = [frame](Session&, const Tensor&) -> std::shared_ptr<void> {
    auto holder = std::make_shared<Holder>();
    frame->holders.push_back(holder);
    return holder;
  };
  hooks->unpack = [frame](Session& s, const std::shared_ptr<void>& packed) {
    return recomputed(s, frame, *std::static_pointer_cast<Holder>(packed));
  };
  return hooks;
}

Tensors without_reentry(Session& s, const CheckpointOptions& options,
                        const CheckpointedFunction& function, const Arguments& arguments) {
  if (!s.grad_enabled) return function(s, arguments);
  const auto frame = std::make_shared<Frame>();
  frame->options = options;
  frame->function = function;
  frame->autocast = {s.autocast.enabled, s.autocast.dtype};
  if (options.saves) frame->cache = std::make_shared<SelectiveCache>(options.saves);
  save_inputs(s, *frame, arguments);
  const SavedTensorScope hooks(s, checkpoint_hooks(frame));
  const Scoped<SelectiveCache*> caching(s.selective_forward, frame->cache.get());
  return function(s, arguments);
}

/// detach_variable.
Tensors detached(Session& s, const Tensors& inputs) {
  Tensors all;
  for (const Tensor& input : inputs) {
    all.push_back(input.defined() ? detach(s, input) : Tensor());
    if (input.defined() && input.requires_grad()) all.back().set_requires_grad(true);
  }
  return all;
}

/// CheckpointFunction.backward.
Tensors reentrant_backward(Session& s, Node& node, const Tensors& gradients,
                           const CheckpointOptions& options, const AutocastBefore& autocast,
                           const CheckpointedFunction& function, std::size_t inputs) {
  Tensors tensors(inputs);
  for (std::size_t i = 0; i < inputs; ++i)
    tensors[i] = node.saved_listed(s, "saved_tensors", static_cast<std::int32_t>(i));
  Tensors leaves;
  Tensors outputs;
  run_again(s, options, autocast, [&] {
    leaves = detached(s, tensors);
    const EnableGrad grad(s);
    outputs = function(s, Arguments(leaves, -1));
  });
  Engine::Request request;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].defined() && outputs[i].requires_grad()) {
      request.roots.push_back(outputs[i]);
      request.gradients.push_back(gradients[i]);
    }
  if (request.roots.empty())
    throw Error(
        {.where = "checkpoint",
         .what = "none of output has requires_grad=True, this checkpoint() is not necessary",
         .way_out = {}});
  backward(s, std::move(request));
  Tensors results;
  for (const Tensor& leaf : leaves) results.push_back(leaf.defined() ? leaf.grad() : Tensor());
  return results;
}

Tensors reentrant(Session& s, const CheckpointOptions& options,
                  const CheckpointedFunction& function, const Arguments& arguments) {
  const AutocastBefore autocast{s.autocast.enabled, s.autocast.dtype};
  return apply_function(
      s, "CheckpointFunctionBackward", arguments.tensors,
      [&](Session& in, const NodeRef& node) {
        Tensors outputs = function(in, arguments);
        for (std::size_t i = 0; node && i < arguments.tensors.size(); ++i)
          node->save_listed(in, "saved_tensors", static_cast<std::int32_t>(i),
                            arguments.tensors[i]);
        return outputs;
      },
      [options, autocast, function, inputs = arguments.tensors.size()](
          Session& in, Node& node, Tensors& gradients) -> Tensors {
        return reentrant_backward(in, node, gradients, options, autocast, function, inputs);
      });
}

}  // namespace

Tensors checkpoint(Session& s, const CheckpointOptions& options,
                   const CheckpointedFunction& function, Arguments arguments) {
  return options.reentrant ? reentrant(s, options, function, arguments)
                           : without_reentry(s, options, function, arguments);
}

std::shared_ptr<Module> checkpoint_wrapper(std::shared_ptr<Module> module,
                                           CheckpointOptions options) {
  auto wrapper = std::make_shared<Module>();
  wrapper->name = module->name;
  wrapper->class_name = "CheckpointWrapper";
  wrapper->children.push_back({"_checkpoint_wrapped_module", std::move(module)});
  wrapper->forward = [options = std::move(options)](Session& s, Module& me,
                                                    const Arguments& arguments) {
    Module& inner = *me.children[0].module;
    return checkpoint(
        s, options,
        [&inner](Session& in, const Arguments& given) { return call(in, inner, given); },
        arguments);
  };
  return wrapper;
}

void checkpoint_forward(Module& layer, CheckpointOptions options) {
  layer.forward = [options = std::move(options), forward = std::move(layer.forward)](
                      Session& s, Module& me, const Arguments& arguments) {
    if (!me.training) return forward(s, me, arguments);
    return checkpoint(
        s, options,
        [&forward, &me](Session& in, const Arguments& given) { return forward(in, me, given); },
        arguments);
  };
}

}  // namespace shardscope::eager
