#include "tests/recordings/ports/fsdp2_mem_tracker.h"

#include <array>

#include "core/base/error.h"
#include "core/pytorch/engine/session.h"

namespace shardscope::eager::fsdp2 {
namespace {

constexpr std::array<std::string_view, TrackedMemory::most_categories> category_names{
    "Sharded Param",  "Unsharded Param", "Buffer", "Sharded Grad",
    "Unsharded Grad", "Activation",      "Temp",   "All Gather",
    "Reduce Scatter", "OptState",        "Inputs"};

/// _FSDPModState.
enum StateOfModule : std::uint8_t {
  peak_forward,
  before_pre_forward_state,
  after_pre_forward_state,
  before_post_forward_state,
  after_post_forward_state,
  peak_backward,
  before_pre_backward_state,
  after_pre_backward_state,
  before_post_backward_state,
  after_post_backward_state,
  pre_forward_ac,
  post_forward_ac
};
constexpr std::array<std::string_view, 12> state_names{
    "Peak Forward",         "Before Pre-Forward",  "After Pre-Forward",   "Before Post-Forward",
    "After Post-Forward",   "Peak Backward",       "Before Pre-Backward", "After Pre-Backward",
    "Before Post-Backward", "After Post-Backward", "Pre-Forward AC",      "Post-Forward AC"};

/// The group that a function of a state or of a group is about; null: it has none.
const ParameterGroup* group_of(const Visit& visit) {
  return visit.group ? visit.group : visit.state->group();
}

}  // namespace

FsdpMemTracker::FsdpMemTracker(Session& s, FullySharded& sharded)
    : CategoryTracker(s, {.categories = category_names, .moments = state_names},
                      static_cast<Category>(TrackedAs::optimizer_state)),
      sharded_(sharded) {}

void FsdpMemTracker::enter(Module& model) {
  for (const auto& state : sharded_.states()) {
    if (!state->group()) continue;
    for (const auto& parameter : state->group()->parameters()) {
      track(parameter->sharded_param(), TrackedAs::sharded_parameter);
      if (const Tensor& gradient = parameter->sharded_param().grad())
        track(gradient, TrackedAs::sharded_gradient);
    }
  }
  for (const auto& [name, buffer] : named_buffers_of(model)) track(buffer, TrackedAs::buffer);
  sharded_.watch(*this);
  mod_tracker_.enter(model, "FSDP" + model.class_name, {});
  restart_peak();
}

std::size_t FsdpMemTracker::place_of(const ParameterGroup& group) const {
  return mod_tracker_.place_of(*group.modules().front());
}

void FsdpMemTracker::on_operator(Session&, const OperatorCall& call) {
  const bool gathers = phase_ == Phase::pre_forward || phase_ == Phase::pre_backward;
  if (gathers && call.op.name == "c10d._allgather_base_.default")
    add(*call.outputs.front()->storage, static_cast<Category>(TrackedAs::all_gather));
  if (phase_ == Phase::post_backward && call.op.name == "c10d._reduce_scatter_base_.default")
    add(*call.inputs[1]->storage, static_cast<Category>(TrackedAs::reduce_scatter));
  const bool in_backward = mod_tracker_.in_backward();
  const TrackedAs category = in_optimizer()                           ? TrackedAs::optimizer_state
                             : in_backward && recomputed_ == no_place ? TrackedAs::temporary
                                                                      : TrackedAs::activation;
  track_results(call, static_cast<Category>(category), in_backward ? peak_backward : peak_forward);
}

void FsdpMemTracker::on_enter(Session&, const Visit& visit) {
  const ParameterGroup* group = group_of(visit);
  if (!group) return;
  switch (visit.site) {
    case Site::state_pre_forward:
      return before_pre_forward(*group);
    case Site::state_post_forward:
      return before_post_forward(*group);
    case Site::state_pre_backward:
      return before_pre_backward(*group);
    case Site::post_backward:
      return before_post_backward(*group);
    default:
      return;
  }
}

void FsdpMemTracker::on_leave(Session&, const Visit& visit) {
  const ParameterGroup* group = group_of(visit);
  if (!group) return;
  switch (visit.site) {
    case Site::state_pre_forward:
      return after_pre_forward(*group);
    case Site::state_post_forward:
      if (!mod_tracker_.in_backward()) note(place_of(*group), after_post_forward_state);
      return;
    case Site::state_pre_backward:
      note(place_of(*group), after_pre_backward_state);
      phase_ = Phase::backward;
      return;
    case Site::post_backward:
      return after_post_backward(*group);
    default:
      return;
  }
}

void FsdpMemTracker::before_pre_forward(const ParameterGroup& group) {
  phase_ = Phase::pre_forward;
  const std::size_t place = place_of(group);
  if (is_tracked(place)) return;
  begin_tracking(place);
  restart_module_peak(place, peak_forward);
  note(place, before_pre_forward_state);
}

void FsdpMemTracker::after_pre_forward(const ParameterGroup& group) {
  for (const auto& parameter : group.parameters())
    track(parameter->unsharded_param(), TrackedAs::unsharded_parameter);
  const std::size_t place = place_of(group);
  if (mod_tracker_.in_backward()) {
    if (recomputed_ == no_place) recomputed_ = place;
    note(place, pre_forward_ac);
  } else {
    note(place, after_pre_forward_state);
  }
  phase_ = Phase::forward;
}

void FsdpMemTracker::before_post_forward(const ParameterGroup& group) {
  const std::size_t place = place_of(group);
  if (mod_tracker_.in_backward()) {
    note(place, post_forward_ac);
    if (recomputed_ == place) recomputed_ = no_place;
  } else {
    note(place, before_post_forward_state);
  }
  phase_ = Phase::post_forward;
}

void FsdpMemTracker::before_pre_backward(const ParameterGroup& group) {
  phase_ = Phase::pre_backward;
  const std::size_t place = place_of(group);
  restart_module_peak(place, peak_backward);
  note(place, before_pre_backward_state);
}

void FsdpMemTracker::before_post_backward(const ParameterGroup& group) {
  for (const auto& parameter : group.parameters()) {
    const Tensor& unsharded = parameter->unsharded_param();
    unsharded_grad_ = unsharded ? unsharded.grad() : Tensor();
    if (unsharded_grad_) track(unsharded_grad_, TrackedAs::unsharded_gradient);
  }
  note(place_of(group), before_post_backward_state);
  phase_ = Phase::post_backward;
}

void FsdpMemTracker::after_post_backward(const ParameterGroup& group) {
  for (const auto& parameter : group.parameters())
    if (const Tensor& gradient = parameter->sharded_param().grad())
      track(gradient, TrackedAs::sharded_gradient);
  note(place_of(group), after_post_backward_state);
  unsharded_grad_.reset();
}

}  // namespace shardscope::eager::fsdp2
