#include "core/runtime/mem_tracker.h"

#include <algorithm>

#include "core/lower/pytorch/engine.h"
#include "core/lower/pytorch/multi_grad_hook.h"
#include "core/lower/pytorch/session.h"

namespace shardscope::eager {
namespace {

constexpr std::array<std::string_view, tracked_categories> category_names{
    "Parameter", "Buffer", "Gradient", "Activation", "Temp", "Optstate", "Other"};
constexpr std::array<std::string_view, 8> moment_names{
    "Peak-Forward", "Pre-Forward",    "Post-Forward",    "Peak-Backward",
    "Pre-Backward", "Pre-Forward-AC", "Post-Forward-AC", "Post-Backward"};

std::int64_t rounded(Bytes bytes) {
  constexpr std::int64_t block = 512;
  return (bytes.count + block - 1) / block * block;
}

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

std::string_view name_of(TrackedAs category) {
  return category_names[static_cast<std::size_t>(category)];
}

std::string_view name_of(ModuleMoment moment) {
  return moment_names[static_cast<std::size_t>(moment)];
}

bool MemTracker::in_backward() const { return s_.engine().graph_task_id() != -1; }

MemTracker::Known& MemTracker::known(const StorageImpl& storage) {
  const auto id = static_cast<std::size_t>(storage.id());
  if (id >= known_.size()) known_.resize(id + 1);
  return known_[id];
}

void MemTracker::change(Known& known, std::int64_t bytes) {
  const std::int64_t more = bytes - known.bytes;
  current_.bytes[static_cast<std::size_t>(known.category)] += more;
  current_.total += more;
  known.bytes = bytes;
}

void MemTracker::add(StorageImpl& storage, TrackedAs category) {
  if (storage.device() != Device::cuda) return;
  Known& entry = known(storage);
  const std::int64_t bytes = entry.known ? entry.bytes : rounded(storage.bytes());
  if (entry.known) change(entry, 0);
  entry.known = true;
  entry.category = category;
  storage.tag.other = static_cast<std::int32_t>(category);
  change(entry, bytes);
}

void MemTracker::track(const Tensor& tensor, TrackedAs category) {
  add(*tensor.storage(), category);
}

void MemTracker::hook_gradient(const Tensor& parameter) {
  if (std::find(hooked_.begin(), hooked_.end(), parameter.impl()) != hooked_.end()) return;
  hooked_.push_back(parameter.impl());
  register_hook(s_, parameter, [this](Session&, const Tensor& gradient) {
    track(gradient, TrackedAs::gradient);
    return Tensor();
  });
  register_post_accumulate_grad_hook(s_, parameter, [this](Session&, const Tensor& leaf) {
    track(leaf.grad(), TrackedAs::gradient);
  });
}

void MemTracker::track_parameters(Module& module, bool with_hooks) {
  for (const NamedParameter& named : named_parameters_of(module)) {
    const Tensor& parameter = named.tensor();
    track(parameter, TrackedAs::parameter);
    if (parameter.grad()) track(parameter.grad(), TrackedAs::gradient);
    if (with_hooks && parameter.requires_grad()) hook_gradient(parameter);
  }
  for (const auto& [name, buffer] : named_buffers_of(module)) track(buffer, TrackedAs::buffer);
}

void MemTracker::track(Module& model) { track_parameters(model, false); }

void MemTracker::name_modules(Module& module, const std::string& name) {
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
    if (child.module) name_modules(*child.module, name + "." + child.name);
}

void MemTracker::enter(Module& model) {
  name_modules(model, model.class_name);
  restart_peak();
}

void MemTracker::on_operator(Session&, const OperatorCall& call) {
  const bool temporary = in_backward() && recomputed_ == no_entry;
  const TrackedAs category = in_optimizer_ ? TrackedAs::optimizer_state
                             : temporary   ? TrackedAs::temporary
                                           : TrackedAs::activation;
  for (const TensorImpl* output : call.outputs) {
    if (!output || output->storage->device() != Device::cuda) continue;
    Known& entry = known(*output->storage);
    if (entry.known)
      change(entry, rounded(output->storage->bytes()));
    else
      add(*output->storage, category);
  }
  note_peak();
}

void MemTracker::on_storage_freed(Session&, StorageImpl& storage) {
  if (storage.device() != Device::cuda) return;
  Known& entry = known(storage);
  if (!entry.known) return;
  change(entry, 0);
  entry.known = false;
}

void MemTracker::on_storage_resized(Session&, StorageImpl& storage, Bytes) {
  if (storage.device() != Device::cuda) return;
  Known& entry = known(storage);
  if (entry.known) change(entry, rounded(storage.bytes()));
}

void MemTracker::note_peak() {
  const ModuleMoment moment =
      in_backward() ? ModuleMoment::peak_backward : ModuleMoment::peak_forward;
  for (const std::size_t place : tracked_) {
    Entry& entry = entries_[place];
    if (!entry.is_parent || entry.local_peak >= current_.total) continue;
    const auto found = entry.snapshots.find(moment);
    if (found == entry.snapshots.end()) continue;
    entry.local_peak = current_.total;
    found->second.back() = current_;
  }
  if (current_.total > peak_.total) peak_ = current_;
}

void MemTracker::begin(std::size_t place) {
  Entry& entry = entries_[place];
  entry.running = entry.is_parent ? entry.running + 1 : 1;
  entry.is_parent = true;
}

void MemTracker::end(std::size_t place) {
  Entry& entry = entries_[place];
  if (entry.is_parent && --entry.running == 0) entry.is_parent = false;
}

void MemTracker::before_forward(std::size_t place, const Arguments& arguments) {
  begin(place);
  Entry& entry = entries_[place];
  const bool first = !entry.tracked;
  if (first) {
    track_parameters(*entry.module, true);
    entry.tracked = true;
    tracked_.push_back(place);
  }
  if (!first && in_backward()) {
    if (recomputed_ == no_entry) recomputed_ = place;
    note(entry, ModuleMoment::before_recomputation);
  } else {
    entry.local_peak = current_.total;
    note(entry, ModuleMoment::peak_forward);
    note(entry, ModuleMoment::before_forward);
  }
  if (in_backward()) return;
  const Tensors inputs = requiring_grad(positional(arguments));
  if (inputs.empty())
    ends_with_backward_.push_back(place);
  else
    register_multi_grad_hook_all(
        s_, inputs, [this, place](Session&, const Tensors&) { after_backward(place); });
}

void MemTracker::after_forward(std::size_t place, const Tensors& outputs) {
  Entry& entry = entries_[place];
  if (in_backward()) {
    note(entry, ModuleMoment::after_recomputation);
    if (recomputed_ == place) recomputed_ = no_entry;
  } else {
    note(entry, ModuleMoment::after_forward);
  }
  end(place);
  const Tensors results = requiring_grad(outputs);
  if (!in_backward() && !results.empty())
    register_multi_grad_hook_any(
        s_, results, [this, place](Session&, const Tensor&) { before_backward(place); });
}

void MemTracker::enqueue_end_of_backward() {
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

void MemTracker::before_backward(std::size_t place) {
  enqueue_end_of_backward();
  begin(place);
  Entry& entry = entries_[place];
  entry.local_peak = current_.total;
  note(entry, ModuleMoment::peak_backward);
  note(entry, ModuleMoment::before_backward);
}

void MemTracker::after_backward(std::size_t place) {
  note(entries_[place], ModuleMoment::after_backward);
  end(place);
}

void MemTracker::end_optimizer_step(const Tensors& states) {
  for (const Tensor& state : states) track(state, TrackedAs::optimizer_state);
  in_optimizer_ = false;
}

std::vector<MemTracker::OfModule> MemTracker::modules() const {
  std::vector<OfModule> all;
  for (const std::size_t place : tracked_)
    all.push_back({entries_[place].name, entries_[place].snapshots});
  return all;
}

void MemTracker::reset_modules() {
  for (const std::size_t place : tracked_) {
    entries_[place].tracked = false;
    entries_[place].snapshots.clear();
  }
  tracked_.clear();
}

}  // namespace shardscope::eager
