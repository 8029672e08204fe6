#include "core/pytorch/runtimes/deepspeed/engine.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/engine.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/deepspeed/bf16_optimizer.h"
#include "core/pytorch/runtimes/deepspeed/flat_optimizer.h"
#include "core/pytorch/runtimes/deepspeed/partitioned_optimizer.h"

namespace shardscope::eager::deepspeed {
namespace {

void refuse_what_is_not_modelled(const DeepSpeedSettings& settings) {
  const auto refuse = [](bool asked, const char* key) {
    if (asked)
      throw Error({.where = key,
                   .what = "the steps that it leads to are not modelled",
                   .way_out = "leave it out"});
  };
  refuse(settings.stage < 1 || settings.stage > 3, "zero_optimization.stage");
  refuse(settings.quantized_weights, "zero_optimization.zero_quantized_weights");
  refuse(settings.quantized_nontrainable_weights,
         "zero_optimization.zero_quantized_nontrainable_weights");
  refuse(settings.quantized_gradients, "zero_optimization.zero_quantized_gradients");
}

/// groups._create_zero_param_parallel_group: neighbours share the second copy.
const ProcessGroup* secondary_group(ProcessGroups& groups, std::int64_t size) {
  if (size <= 1) return nullptr;
  const ProcessGroup* own = nullptr;
  const int world = groups.world().size();
  for (int first = 0; first < world; first += static_cast<int>(size)) {
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(size, world - first));
    const ProcessGroup& made = groups.add(Ranks::spaced(first, 1, count));
    if (made.rank >= 0) own = &made;
  }
  return own;
}

std::vector<ParameterIndices> one_group(const std::vector<NamedParameter>& parameters) {
  ParameterIndices all;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].tensor().requires_grad()) all.push_back(i);
  return {all};
}

}  // namespace

Engine::Engine(Session& s, ProcessGroups& groups, Request request)
    : s_(s),
      rank_(groups.world().rank),
      model_(request.model),
      settings_(std::move(request.settings)),
      watchers_(std::move(request.watchers)),
      parameters_(named_parameters_of(model_)),
      groups_(std::move(request.optimizer_groups)),
      master_optimizer_(request.optimizer) {
  refuse_what_is_not_modelled(settings_);
  const NoGrad no_grad(s_);
  if (groups_.empty()) groups_ = one_group(parameters_);
  const ProcessGroup& world = groups.world();
  const ProcessGroup& data_parallel = groups.add(world.ranks);
  if (settings_.precision != Dtype::float32 && !settings_.keeps_dtypes)
    for (const NamedParameter& p : parameters_)
      if (p.tensor().is_floating_point())  // Module.half() leaves packed integers
        p.tensor().set_data(to(s_, detach(s_, p.tensor()), settings_.precision));
  for (const NamedParameter& p : parameters_) broadcast_bytes(s_, data_parallel, p.tensor(), 0);
  Setup setup{.s = s_,
              .settings = settings_,
              .parameters = parameters_,
              .groups = groups_,
              .group = data_parallel,
              .watchers = watchers_,
              .optimizer = master_optimizer_};
  if (settings_.stage == 3)
    optimizer_ = std::make_unique<PartitionedOptimizer>(
        std::move(setup), model_, world, secondary_group(groups, settings_.hpz_partition_size));
  else if (takes_bf16_optimizer(setup))
    optimizer_ = std::make_unique<Bf16Optimizer>(std::move(setup));
  else
    optimizer_ = std::make_unique<FlatOptimizer>(std::move(setup));
}

bool Engine::at_boundary() const { return (micro_steps_ + 1) % settings_.accumulation_steps == 0; }

Tensors Engine::forward(Arguments arguments) {
  optimizer_->start_forward();
  Tensors outputs = call(s_, model_, std::move(arguments));
  optimizer_->end_forward();
  return outputs;
}

void Engine::backward(const Tensor& loss) {
  optimizer_->set_boundary(at_boundary());
  // Both live until the end: one is returned, the other is a variable.
  const Tensor divided = div(s_, loss, static_cast<double>(settings_.accumulation_steps));
  const Tensor scaled = optimizer_->scale(divided);
  optimizer_->start_backward();
  eager::backward(s_, scaled);
  optimizer_->end_backward();
}

ParameterIndices Engine::indices_of(const Module& module) const {
  ParameterIndices indices;
  for (const Module::NamedTensor& own : module.parameters)
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (own.tensor && parameters_[i].tensor().is(own.tensor)) indices.push_back(i);
  return indices;
}

/// _zero3_consolidated_16bit_state_dict.
std::vector<std::pair<std::string, Tensor>> Engine::consolidated(bool trainable_only) {
  const NoGrad no_grad(s_);
  std::vector<std::pair<std::string, Tensor>> state;
  std::set<std::size_t> saved;
  optimizer_->start_saving();
  for (const Module* module : modules_of(model_)) {
    const ParameterIndices own = indices_of(*module);
    optimizer_->gather(own);
    for (const std::size_t i : own) {
      const Tensor& parameter = parameters_[i].tensor();
      if (rank_ != 0 || (trainable_only && !parameter.requires_grad())) continue;
      if (saved.insert(i).second)
        state.emplace_back(parameters_[i].name, to(s_, parameter, {.device = Device::cpu}));
    }
    for (const Module::NamedTensor& buffer : module->buffers)
      if (rank_ == 0 && buffer.tensor && buffer.persistent)
        state.emplace_back(module->name + "." + buffer.name,
                           to(s_, buffer.tensor, {.device = Device::cpu}));
    optimizer_->partition(own);
  }
  optimizer_->end_saving();
  return state;
}

std::vector<HeldTensor> Engine::held() const {
  std::vector<HeldTensor> all = optimizer_->held();
  for (const ParameterOptimizer& group : master_optimizer_.groups())
    for (const ParameterOptimizer::State& state : group.states())
      for (const auto& [tensor, name] :
           {std::pair{state.step, "step"}, std::pair{state.first_moment, "first moment"},
            std::pair{state.second_moment, "second moment"},
            std::pair{state.greatest_moment, "greatest moment"},
            std::pair{state.first_scales, "scales of the first moment"},
            std::pair{state.second_scales, "scales of the second moment"}})
        if (tensor) all.push_back({tensor, MemoryCategory::optimizer_states, name});
  return all;
}

void Engine::step() {
  if (at_boundary()) {
    optimizer_->step();
    norm_ = optimizer_->norm();
    optimizer_->zero_grad();
  }
  ++micro_steps_;
}

}  // namespace shardscope::eager::deepspeed
