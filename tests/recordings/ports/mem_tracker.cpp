#include "tests/recordings/ports/mem_tracker.h"

#include <algorithm>
#include <array>

#include "core/pytorch/engine/session.h"

namespace shardscope::eager {
namespace {

constexpr std::array<std::string_view, 7> category_names{
    "Parameter", "Buffer", "Gradient", "Activation", "Temp", "Optstate", "Other"};

/// _ModState.
enum StateOfModule : std::uint8_t {
  peak_forward,
  pre_forward,
  post_forward,
  peak_backward,
  pre_backward,
  pre_forward_ac,
  post_forward_ac,
  post_backward
};
constexpr std::array<std::string_view, 8> state_names{
    "Peak-Forward", "Pre-Forward",    "Post-Forward",    "Peak-Backward",
    "Pre-Backward", "Pre-Forward-AC", "Post-Forward-AC", "Post-Backward"};

}  // namespace

MemTracker::MemTracker(Session& s)
    : CategoryTracker(s, {.categories = category_names, .moments = state_names},
                      static_cast<Category>(TrackedAs::optimizer_state)),
      s_(s) {}

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

void MemTracker::track_model(Module& model) { track_parameters(model, false); }

void MemTracker::track_input(const Tensor& input) { track(input, TrackedAs::other); }

void MemTracker::enter(Module& model) {
  const auto begin_backward = [this](std::size_t place) {
    restart_module_peak(place, peak_backward);
    note(place, pre_backward);
  };
  mod_tracker_.enter(model, model.class_name,
                     {.before_forward = [this](std::size_t place) { before_forward(place); },
                      .after_forward = [this](std::size_t place) { after_forward(place); },
                      .before_backward = begin_backward,
                      .after_backward = [this](std::size_t place) { note(place, post_backward); }});
  restart_peak();
}

void MemTracker::on_operator(Session&, const OperatorCall& call) {
  const bool in_backward = mod_tracker_.in_backward();
  const TrackedAs category = in_optimizer()                           ? TrackedAs::optimizer_state
                             : in_backward && recomputed_ == no_place ? TrackedAs::temporary
                                                                      : TrackedAs::activation;
  track_results(call, static_cast<Category>(category), in_backward ? peak_backward : peak_forward);
}

void MemTracker::before_forward(std::size_t place) {
  const bool first = !is_tracked(place);
  if (first) {
    track_parameters(mod_tracker_.module(place), true);
    begin_tracking(place);
  }
  if (!first && mod_tracker_.in_backward()) {
    if (recomputed_ == no_place) recomputed_ = place;
    note(place, pre_forward_ac);
  } else {
    restart_module_peak(place, peak_forward);
    note(place, pre_forward);
  }
}

void MemTracker::after_forward(std::size_t place) {
  if (!is_tracked(place)) return;  // a hook before its forward threw
  if (!mod_tracker_.in_backward()) return note(place, post_forward);
  note(place, post_forward_ac);
  if (recomputed_ == place) recomputed_ = no_place;
}

}  // namespace shardscope::eager
