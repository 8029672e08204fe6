#include "traces/match/host_stacks.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "traces/analysis.h"
#include "traces/held_sum.h"
#include "traces/import/collective_names.h"
#include "traces/import/device_activity.h"
#include "traces/match/host_tree.h"
#include "traces/match/profiled_steps.h"
#include "traces/match/profiled_units.h"

namespace shardscope {
namespace {

constexpr std::string_view module_prefix = "nn.Module: ";
constexpr std::string_view node_prefix = "autograd::engine::evaluate_function: ";

/// What an event of the host says about what is below it.
enum class Says : std::uint8_t { nothing, module, backward, optimizer, zero_grad, operation };

Says said_by(std::string_view category, std::string_view name) {
  if (category == "python_function")
    return name.starts_with(module_prefix) ? Says::module : Says::nothing;
  if (category == "user_annotation") {
    if (name.starts_with("ProfilerStep#")) return Says::nothing;
    if (name.starts_with("Optimizer.step#")) return Says::optimizer;
    if (name.starts_with("Optimizer.zero_grad#")) return Says::zero_grad;
    return Says::module;
  }
  if (category != "cpu_op") return Says::nothing;
  return name.starts_with(node_prefix) ? Says::backward : Says::operation;
}

/// Where an event of the host stands.
struct Context {
  std::uint32_t modules = 0;          ///< path of modules, 0: none
  std::uint32_t operation = no_name;  ///< name of the outermost operator
  Phase phase = Phase::other;
  bool operator==(const Context&) const = default;
};

/// Paths of modules as numbers: each is a parent with one name more.
class Paths {
 public:
  std::uint32_t below(std::uint32_t parent, std::uint32_t name) {
    const auto [known, is_new] = ids_.try_emplace({parent, name}, paths_.size());
    if (is_new) paths_.emplace_back(parent, name);
    return known->second;
  }
  /// Names from the outermost to the innermost.
  std::vector<std::uint32_t> names_of(std::uint32_t path) const {
    std::vector<std::uint32_t> names;
    for (; path != 0; path = paths_[path].first) names.push_back(paths_[path].second);
    std::reverse(names.begin(), names.end());
    return names;
  }

 private:
  std::vector<std::pair<std::uint32_t, std::uint32_t>> paths_{{0, no_name}};
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> ids_;
};

/// The operator of the forward for each of its backward nodes, by the profiler's flows. An event is
/// found by its thread and start.
class ForwardOperators {
 public:
  explicit ForwardOperators(const ImportedTrace& trace) : trace_(trace) {
    const EventColumns& events = trace.events;
    std::unordered_map<std::uint32_t, Place> begins;
    for (std::uint32_t i = 0; i < events.size(); ++i)
      if (is_flow(i) && events.phase[i] == 's') begins.try_emplace(events.link[i], place_of(i));
    for (std::uint32_t i = 0; i < events.size(); ++i) {
      if (!is_flow(i) || events.phase[i] != 'f') continue;
      const auto from = begins.find(events.link[i]);
      if (from != begins.end()) begin_of_[place_of(i)] = from->second;
    }
    for (const auto& [link, place] : begins) at_[place] = no_event;
    for (const std::uint32_t event : trace.by_track) {
      const auto found = at_.find(place_of(event));
      if (found != at_.end()) found->second = event;
    }
  }

  /// `no_event`: the event begins no backward node whose forward is known.
  std::uint32_t of(std::uint32_t event) const {
    const auto begin = begin_of_.find(place_of(event));
    return begin == begin_of_.end() ? no_event : at_.at(begin->second);
  }
  /// Does a backward node follow from the operator.
  bool is_forward(std::uint32_t event) const { return at_.contains(place_of(event)); }

 private:
  using Place = std::pair<std::uint32_t, std::int64_t>;
  bool is_flow(std::uint32_t event) const { return trace_.category_of(event) == "fwdbwd"; }
  Place place_of(std::uint32_t event) const {
    return {trace_.events.track[event], trace_.events.start_ns[event]};
  }

  const ImportedTrace& trace_;
  std::map<Place, Place> begin_of_;    ///< by where the backward node begins
  std::map<Place, std::uint32_t> at_;  ///< the innermost event that begins there
};

/// Names of functions of autograd's that Python defines: the node of `F` is called `FBackward`.
std::vector<bool> names_with_backward(const ImportedTrace& trace) {
  const std::unordered_set<std::string_view> names(trace.names.begin(), trace.names.end());
  std::vector<bool> has_backward;
  for (const std::string& name : trace.names)
    has_backward.push_back(names.contains(name + "Backward"));
  return has_backward;
}

class HostStacks {
 public:
  HostStacks(const ImportedTrace& trace, std::optional<TimeWindow> window)
      : trace_(trace),
        window_(window),
        tree_(trace),
        forwards_(trace),
        has_backward_(names_with_backward(trace)) {
    // Forwards lie on other threads than their backwards, and must be there first.
    contexts_.resize(trace.events.size());
    walk(false);
    walk(true);
  }

  std::vector<FlameStack> take() {
    bool has_device = false;
    for (const std::uint32_t event : trace_.by_track) {
      if (!is_activity(event)) continue;
      has_device = true;
      const std::uint32_t launch = tree_.on_host(event);
      if (is_inside(launch)) add_activity(event, launch);
    }
    if (!has_device)
      for (const std::uint32_t event : trace_.by_track) add_operator(event);
    return stacks();
  }

 private:
  /// What stacks are told apart by; the class tells kernels from collectives and copies.
  using Key = std::tuple<Phase, std::uint32_t, std::uint32_t, std::uint32_t, SpanClass>;

  bool is_activity(std::uint32_t event) const {
    return trace_.track_of(event).kind == TrackKind::stream &&
           is_of_devices(trace_.category_of(event));
  }

  bool is_inside(std::uint32_t event) const {
    const Duration start{trace_.events.start_ns[event]};
    return !window_ || (start >= window_->begin && start < window_->end);
  }

  void walk(bool with_forwards) {
    for (const std::uint32_t event : trace_.by_track)
      if (trace_.track_of(event).kind == TrackKind::thread)
        contexts_[event] = context_of(event, with_forwards);
  }

  Context context_of(std::uint32_t event, bool with_forwards) {
    const std::uint32_t around = tree_.around(event);
    Context context = around == no_event ? Context{} : contexts_[around];
    const std::uint32_t name = trace_.events.name[event];
    switch (said_by(trace_.category_of(event), trace_.names[name])) {
      case Says::nothing:
        break;
      case Says::module:
        context.modules = paths_.below(context.modules, name);
        if (context.phase == Phase::other) context.phase = Phase::forward;
        break;
      case Says::backward:
        context.phase = Phase::backward;
        break;
      case Says::optimizer:
        context.phase = Phase::optimizer;
        break;
      case Says::zero_grad:
        context.phase = Phase::zero_grad;
        break;
      case Says::operation:
        if (context.operation == no_name) context.operation = name;
        if (context.phase == Phase::other && (forwards_.is_forward(event) || has_backward_[name]))
          context.phase = Phase::forward;
        break;
    }
    const std::uint32_t forward = with_forwards ? forwards_.of(event) : no_event;
    if (forward != no_event && forward != event) {
      context.modules = contexts_[forward].modules;
      context.phase = Phase::backward;
    }
    return context;
  }

  void add_activity(std::uint32_t event, std::uint32_t launch) {
    const Context context = launch == event ? Context{} : contexts_[launch];
    add({context.phase, context.modules, context.operation, trace_.events.name[event],
         trace_.events.span_class[event]},
        event);
  }

  void add_operator(std::uint32_t event) {
    if (trace_.track_of(event).kind != TrackKind::thread || !is_inside(event)) return;
    const std::uint32_t around = tree_.around(event);
    const bool is_outermost =
        contexts_[event].operation == trace_.events.name[event] &&
        said_by(trace_.category_of(event), trace_.name_of(event)) == Says::operation &&
        (around == no_event || contexts_[around].operation == no_name);
    if (!is_outermost) return;
    const Context& context = contexts_[event];
    add({context.phase, context.modules, context.operation, no_name, SpanClass::compute}, event);
  }

  void add(const Key& key, std::uint32_t event) {
    std::int64_t& amount = amounts_[key];
    amount = held_sum(amount, std::max<std::int64_t>(0, trace_.events.duration_ns[event]));
  }

  /// A unit's annotation stands for the unit's modules.
  void append_module(std::uint32_t name, std::vector<std::string>& frames) const {
    std::string_view text = trace_.names[name];
    if (text.starts_with(module_prefix)) text.remove_prefix(module_prefix.size());
    if (const auto unit = fsdp2_unit_of(text); unit && !unit->empty())
      for (std::string& frame : module_frames(*unit)) frames.push_back(std::move(frame));
    else
      frames.emplace_back(text);
  }

  std::vector<FlameStack> stacks() const {
    std::vector<FlameStack> stacks;
    for (const auto& [key, amount] : amounts_) {
      const auto& [phase, modules, operation, name, span_class] = key;
      FlameStack stack{
          .frames = {std::string(name_of(phase))}, .amount = amount, .look = {.phase = phase}};
      for (const std::uint32_t module : paths_.names_of(modules))
        append_module(module, stack.frames);
      if (operation != no_name) stack.frames.push_back(trace_.names[operation]);
      if (name != no_name) stack.frames.push_back(trace_.names[name]);
      if (span_class == SpanClass::communication)
        stack.look.kind = collective_kind(trace_.names[name]).value_or(OperationKind::barrier);
      if (span_class == SpanClass::copy) stack.look.kind = OperationKind::copy;
      stacks.push_back(std::move(stack));
    }
    return stacks;
  }

  const ImportedTrace& trace_;
  std::optional<TimeWindow> window_;
  HostTree tree_;
  ForwardOperators forwards_;
  std::vector<bool> has_backward_;  ///< by name
  Paths paths_;
  std::vector<Context> contexts_;  ///< by event
  std::map<Key, std::int64_t> amounts_;
};

}  // namespace

std::vector<FlameStack> host_stacks(const ImportedTrace& trace, std::optional<TimeWindow> window) {
  return HostStacks(trace, window).take();
}

std::optional<TimeWindow> typical_host_step(const ImportedTrace& trace) {
  const ProfiledSteps steps = profiled_steps(trace);
  if (steps.marks == StepMarks::none || steps.steps.empty()) return std::nullopt;
  std::vector<StepWindow> windows;
  for (const ProfiledStep& step : steps.steps) windows.push_back({.window = step.window});
  return windows[steady_step(windows)].window;
}

}  // namespace shardscope
