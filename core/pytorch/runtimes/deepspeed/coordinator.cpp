#include "core/pytorch/runtimes/deepspeed/coordinator.h"

#include <algorithm>
#include <utility>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/runtimes/common/collectives.h"

namespace shardscope::eager::deepspeed {
namespace {

constexpr std::size_t max_ongoing_fetch_events = 2;

}  // namespace

Coordinator::Coordinator(const Setup& setup, PartitionedParameters& parameters,
                         const ProcessGroup& world)
    : setup_(setup),
      parameters_(parameters),
      world_(world),
      stream_(setup.side_stream({"allgather", Stream::unshard})),
      fetched_for_(parameters.size(), never) {}

/// assert_ints_same_as_other_ranks: the length, then the list.
void Coordinator::same_on_all_ranks(std::int64_t numbers) {
  Session& s = setup_.s;
  const Like integers{.dtype = Dtype::int64, .device = s.settings.device};
  const Tensor length = scalar_tensor(s, integers);
  broadcast(s, world_, length, 0);
  item(s, length);
  const Tensor list = empty(s, {numbers}, integers);
  broadcast(s, world_, list, 0);
  s.host_sync();
}

void Coordinator::clean_inflight() {
  for (const auto& [parameter, handle] : std::exchange(inflight_, {})) {
    handle->wait();
    release(parameter);
  }
}

void Coordinator::reset_step() {
  clean_inflight();
  if (trace_ != TraceMode::complete) {
    same_on_all_ranks(static_cast<std::int64_t>(module_order_.size()));
    if (trace_ == TraceMode::record) {
      parameter_order_.clear();
      for (std::size_t step = 0; step < module_order_.size(); ++step)
        for (const std::size_t parameter : module_order_[step]->parameters)
          parameter_order_.push_back(
              {.parameter = parameter, .step = static_cast<std::int64_t>(step)});
      same_on_all_ranks(static_cast<std::int64_t>(parameter_order_.size()));
      same_on_all_ranks(static_cast<std::int64_t>(parameter_order_.size()));
      trace_ = TraceMode::complete;
    } else {
      trace_ = TraceMode::record;
    }
  }
  queue_.assign(parameter_order_.begin(), parameter_order_.end());
  std::fill(fetched_for_.begin(), fetched_for_.end(), never);
  step_ = 0;
  available_elements_ = 0;
}

/// trace_prologue and record_module.
void Coordinator::prologue(const FetchedModule& module) {
  const auto step = static_cast<std::size_t>(step_);
  if (trace_ == TraceMode::complete &&
      (step >= module_order_.size() || module_order_[step] != &module)) {
    trace_ = TraceMode::invalid;
    module_order_.clear();
    parameter_order_.clear();
    queue_.clear();
    std::fill(fetched_for_.begin(), fetched_for_.end(), never);
    clean_inflight();
  }
  if (trace_ == TraceMode::record) module_order_.push_back(&module);
}

void Coordinator::fetch(const FetchedModule& module, bool forward) {
  setup_.s.module_hook("fetch_sub_module");
  prologue(module);
  if (!forward &&
      std::find(in_backward_.begin(), in_backward_.end(), &module) == in_backward_.end())
    in_backward_.push_back(&module);
  std::vector<GatherStatus> status;
  for (const std::size_t p : module.parameters) status.push_back(parameters_[p].status);
  const Fetch told{.module = *module.module,
                   .forward = forward,
                   .trace = trace_,
                   .parameters = module.parameters,
                   .status = status};
  for (Watcher* watcher : setup_.watchers) watcher->on_fetch(setup_.s, told);
  const Visiting visiting = setup_.visiting(Site::fetch, module.module);
  ParameterIndices missing;
  for (const std::size_t p : module.parameters)
    if (parameters_[p].status == GatherStatus::not_available) missing.push_back(p);
  if (!missing.empty()) gather(module.parameters);
  wait_for(module, forward);
  if (trace_ == TraceMode::complete) prefetch(module);
  ++step_;
}

void Coordinator::wait_for(const FetchedModule& module, bool forward) {
  Session& s = setup_.s;
  const bool recomputes = forward && s.engine().graph_task_id() != -1 && !in_backward_.empty();
  for (const std::size_t p : module.parameters) {
    parameters_[p].active_modules.insert(module.id);
    // Frozen parameters have no hook of their own that lets go of them.
    if (recomputes && !parameters_[p].parameter.requires_grad()) {
      const int owner = in_backward_.back()->id;
      recomputed_[owner].insert(p);
      parameters_[p].active_modules.insert(owner);
    }
    const auto found = inflight_.find(p);
    if (found == inflight_.end()) continue;
    const OnStream on_stream(s, stream_);
    if (fetch_events_.size() > max_ongoing_fetch_events) {
      s.host_wait(fetch_events_.front());
      fetch_events_.pop_front();
    }
    const std::shared_ptr<GatherHandle> handle = found->second;
    inflight_.erase(found);
    handle->wait();
    if (setup_.has_streams()) fetch_events_.push_back(s.record_event(stream_));
  }
  setup_.wait_stream(s.stream, stream_);
}

void Coordinator::prefetch(const FetchedModule& module) {
  std::set<std::size_t> expected, discarded;
  for (const std::size_t p : module.parameters)
    if (fetched_for_[p] < step_) expected.insert(p);
  while (!queue_.empty() && discarded.size() < expected.size()) {
    const Use use = queue_.front();
    queue_.pop_front();
    fetched_for_[use.parameter] = use.step;
    discarded.insert(use.parameter);
  }
  const std::int64_t bucket = setup_.settings.prefetch_bucket_elements;
  if (bucket <= 0) return;
  const std::int64_t limit =
      std::min(setup_.settings.max_live_elements - available_elements_, bucket);
  ParameterIndices chosen;
  std::int64_t elements = 0;
  while (!queue_.empty() && elements < limit) {
    const Use use = queue_.front();
    queue_.pop_front();
    const bool wanted = parameters_[use.parameter].status == GatherStatus::not_available &&
                        std::find(chosen.begin(), chosen.end(), use.parameter) == chosen.end();
    fetched_for_[use.parameter] = std::max(fetched_for_[use.parameter], use.step);
    if (!wanted) continue;
    chosen.push_back(use.parameter);
    elements += parameters_[use.parameter].elements;
  }
  if (elements > 0) gather(chosen);
}

void Coordinator::gather(const ParameterIndices& wanted) {
  Session& s = setup_.s;
  ParameterIndices sorted = wanted;
  std::sort(sorted.begin(), sorted.end());
  for (Watcher* watcher : setup_.watchers) watcher->on_gather(s, sorted);
  const Visiting visiting = setup_.visiting(Site::all_gather_params);
  ParameterIndices secondary, primary;
  for (const std::size_t p : wanted) {
    if (parameters_[p].status != GatherStatus::not_available) continue;
    available_elements_ += parameters_[p].elements;
    (parameters_[p].secondary ? secondary : primary).push_back(p);
  }
  for (const ParameterIndices& group : {secondary, primary}) {
    if (group.empty()) continue;
    const OnStream on_stream(s, stream_);
    const std::shared_ptr<GatherHandle> handle = parameters_.gather(group);
    for (const std::size_t p : group) inflight_[p] = handle;
  }
}

void Coordinator::release(std::size_t index) {
  PartitionedParameter& p = parameters_[index];
  if (p.status != GatherStatus::available || !p.active_modules.empty()) return;
  parameters_.partition(index);
  available_elements_ -= p.elements;
}

/// __params_to_release.
ParameterIndices Coordinator::releasable(const FetchedModule& module) const {
  if (trace_ != TraceMode::complete) return module.parameters;
  std::set<std::size_t> chosen;
  for (const std::size_t p : module.parameters)
    if (!parameters_[p].persistent && fetched_for_[p] <= step_) chosen.insert(p);
  std::int64_t traversed = 0;
  for (auto at = static_cast<std::size_t>(step_);
       at < module_order_.size() && traversed < setup_.settings.max_reuse_elements; ++at)
    for (const std::size_t p : module_order_[at]->parameters) {
      chosen.erase(p);
      traversed += parameters_[p].elements;
    }
  return {chosen.begin(), chosen.end()};
}

/// The module's own parameters, and behind them those that were recomputed inside its backward.
ParameterIndices Coordinator::with_recomputed(const FetchedModule& module) {
  ParameterIndices all = module.parameters;
  const auto found = recomputed_.find(module.id);
  if (found == recomputed_.end()) return all;
  all.insert(all.end(), found->second.begin(), found->second.end());
  recomputed_.erase(found);
  return all;
}

void Coordinator::release(const FetchedModule& module, bool forward) {
  setup_.s.module_hook("release_sub_module");
  std::vector<GatherStatus> before;
  for (const std::size_t p : module.parameters) before.push_back(parameters_[p].status);
  {
    const Visiting visiting = setup_.visiting(Site::release, module.module);
    ParameterIndices chosen = releasable(module);
    ParameterIndices held = module.parameters;
    if (!forward) {
      std::erase(in_backward_, &module);
      held = with_recomputed(module);
      for (std::size_t i = module.parameters.size(); i < held.size(); ++i)
        if (!parameters_[held[i]].persistent) chosen.push_back(held[i]);
    }
    for (const std::size_t p : held) {
      parameters_[p].active_modules.erase(module.id);
      if (std::find(chosen.begin(), chosen.end(), p) != chosen.end()) release(p);
    }
  }
  if (module.parameters.empty()) return;
  ParameterIndices freed, kept;
  for (std::size_t i = 0; i < module.parameters.size(); ++i) {
    const std::size_t p = module.parameters[i];
    const bool available = parameters_[p].status == GatherStatus::available;
    if (available)
      kept.push_back(p);
    else if (before[i] == GatherStatus::available)
      freed.push_back(p);
  }
  for (Watcher* watcher : setup_.watchers)
    watcher->on_released(setup_.s, *module.module, freed, kept);
}

void Coordinator::release_leftovers() {
  while (!in_backward_.empty()) {
    const FetchedModule& module = *in_backward_.back();
    in_backward_.pop_back();
    for (const std::size_t p : with_recomputed(module)) {
      parameters_[p].active_modules.erase(module.id);
      if (!parameters_[p].persistent) release(p);
    }
  }
}

void Coordinator::release_all() {
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const auto found = inflight_.find(p);
    if (found != inflight_.end()) {
      const std::shared_ptr<GatherHandle> handle = found->second;
      inflight_.erase(found);
      handle->wait();
    }
    parameters_[p].active_modules.clear();
    release(p);
  }
}

}  // namespace shardscope::eager::deepspeed
