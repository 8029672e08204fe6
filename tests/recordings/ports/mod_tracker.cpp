#include "tests/recordings/ports/mod_tracker.h"

#include <algorithm>
#include <span>

#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/session.h"

namespace shardscope::eager {
namespace {

Tensors requiring_grad(std::span<const Tensor> tensors) {
  Tensors found;
  for (const Tensor& tensor : tensors)
    if (tensor && tensor.requires_grad()) found.push_back(tensor);
  return found;
}

std::span<const Tensor> positional(const Arguments& arguments) {
  const std::span<const Tensor> all(arguments.tensors);
  return arguments.positional < 0 ? all : all.first(static_cast<std::size_t>(arguments.positional));
}

}  // namespace

ModTracker::~ModTracker() {
  for (const auto& hooks : grad_hooks_) forget_nodes(hooks);
}

bool ModTracker::in_backward() const { return s_.engine().graph_task_id() != -1; }

std::size_t ModTracker::place_of(const Module& module) const {
  const auto at = std::find_if(entries_.begin(), entries_.end(),
                               [&](const Entry& entry) { return entry.module == &module; });
  return static_cast<std::size_t>(at - entries_.begin());
}

void ModTracker::enter(Module& model, const std::string& class_name, Hooks hooks) {
  hooks_ = std::move(hooks);
  add(model, class_name);
}

void ModTracker::add(Module& module, const std::string& name) {
  const std::size_t place = entries_.size();
  entries_.push_back({.module = &module, .name = name});
  module.forward_pre_hooks.insert(
      module.forward_pre_hooks.begin(),
      [this, place](Session&, Module&, Arguments& given) { before_forward(place, given); });
  module.always_forward_hooks.insert(
      module.always_forward_hooks.begin(),
      [this, place](Session&, Module&, const Arguments&, Tensors& outputs) {
        after_forward(place, outputs);
      });
  for (const Module::Child& child : module.children)
    if (child.module) add(*child.module, name + "." + child.name);
}

void ModTracker::begin(std::size_t place) {
  Entry& entry = entries_[place];
  entry.running = entry.is_parent ? entry.running + 1 : 1;
  entry.is_parent = true;
}

void ModTracker::end(std::size_t place) {
  Entry& entry = entries_[place];
  if (entry.is_parent && --entry.running == 0) entry.is_parent = false;
}

void ModTracker::before_forward(std::size_t place, const Arguments& arguments) {
  begin(place);
  if (hooks_.before_forward) hooks_.before_forward(place);
  if (in_backward()) return;
  const Tensors inputs = requiring_grad(positional(arguments));
  if (inputs.empty())
    ends_with_backward_.push_back(place);
  else
    grad_hooks_.push_back(
        register_multi_grad_hook_all(s_, inputs, [this, place](Session&, const Tensors&) {
          after_backward(place);
        }).shared());
}

void ModTracker::after_forward(std::size_t place, const Tensors& outputs) {
  if (hooks_.after_forward) hooks_.after_forward(place);
  end(place);
  const Tensors results = requiring_grad(outputs);
  if (!in_backward() && !results.empty())
    register_multi_grad_hook_any(
        s_, results, [this, place](Session&, const Tensor&) { before_backward(place); });
}

void ModTracker::before_backward(std::size_t place) {
  enqueue_end_of_backward();
  begin(place);
  if (hooks_.before_backward) hooks_.before_backward(place);
}

void ModTracker::after_backward(std::size_t place) {
  if (hooks_.after_backward) hooks_.after_backward(place);
  end(place);
}

void ModTracker::enqueue_end_of_backward() {
  if (has_callback_) return;
  for (auto place = ends_with_backward_.rbegin(); place != ends_with_backward_.rend(); ++place)
    queue_callback(s_, [this, at = *place](Session&) { after_backward(at); });
  ends_with_backward_.clear();
  queue_callback(s_, [this](Session&) {
    for (Entry& entry : entries_) entry.is_parent = false;
    has_callback_ = false;
  });
  has_callback_ = true;
}

}  // namespace shardscope::eager
