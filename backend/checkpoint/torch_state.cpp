#include "backend/checkpoint/torch_state.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "backend/checkpoint/foreign_checkpoint.h"
#include "backend/checkpoint/pickle_text.h"
#include "core/base/error.h"
#include "core/format/is_there.h"
#include "core/model/read_model.h"
#include "core/native/job_text.h"
#include "core/native/learning_rate.h"
#include "core/native/optimizer.h"

namespace shardscope {
namespace {

std::optional<Model> model_of(const Checkpoint& from) {
  if (!is_there(from.config())) return std::nullopt;
  return read_model(from.config(), {.class_name = {}, .dtype = Dtype::float32});
}

std::vector<std::string> names_of(const Checkpoint& from, const std::optional<Model>& model) {
  std::vector<std::string> names;
  if (model) {
    for (const Parameter& parameter : model->parameters) names.push_back(parameter.name);
    return names;
  }
  for (const Checkpoint::Tensor& tensor : from.tensors())
    if (const auto [state, parameter] = split_tensor_name(tensor.name); state == parameters_state)
      names.emplace_back(parameter);
  return names;
}

TorchTensor tensor_of(Checkpoint& from, const std::string& parameter, std::string state,
                      const Checkpoint::Tensor& tensor) {
  return {.parameter = parameter,
          .state = std::move(state),
          .shape = tensor.shape,
          .source = {.elements = tensor.elements(),
                     .read = [&from, name = tensor.name](std::int64_t first, std::span<float> out) {
                       from.read(name, first, out);
                     }}};
}

TorchTensor step_of(const Checkpoint& from, const std::string& parameter) {
  const TrainingProgress& progress = from.index().progress;
  const auto step = static_cast<float>(progress.step - progress.skipped_steps);
  return {.parameter = parameter,
          .state = "step",
          .shape = {},
          .source = {.elements = 1, .read = [step](std::int64_t, std::span<float> out) {
                       std::fill(out.begin(), out.end(), step);
                     }}};
}

void add_tied(const Model& model, std::vector<TorchTensor>& tensors) {
  for (const TiedName& tied : model.tied) {
    const auto first = std::find_if(tensors.begin(), tensors.end(), [&](const TorchTensor& one) {
      return one.parameter == tied.first;
    });
    if (first == tensors.end()) continue;
    TorchTensor again = *first;
    again.parameter = tied.later;
    again.same_as = static_cast<std::size_t>(first - tensors.begin());
    tensors.push_back(std::move(again));
  }
}

/// Whether the optimizer has states of it. Where there are no states at all, all are trained.
class Trained {
 public:
  explicit Trained(const Checkpoint& from) : from_(from) {
    for (const std::string& state : from.states())
      if (state != parameters_state) states_.push_back(state);
  }
  bool operator()(const std::string& parameter) const {
    return states_.empty() || std::ranges::any_of(states_, [&](const std::string& state) {
             return from_.find(tensor_name(state, parameter)).has_value();
           });
  }

 private:
  const Checkpoint& from_;
  std::vector<std::string> states_;
};

std::string real_list(const std::vector<TorchGroup>& groups, double TorchGroup::*value) {
  std::string items;
  for (const TorchGroup& group : groups) items += pickled_real(group.*value);
  return pickled_list(items);
}

}  // namespace

std::vector<TorchTensor> model_state(Checkpoint& from) {
  const std::optional<Model> model = model_of(from);
  std::vector<TorchTensor> tensors;
  for (const std::string& name : names_of(from, model))
    if (const auto tensor = from.find(tensor_name(parameters_state, name)))
      tensors.push_back(tensor_of(from, name, {}, *tensor));
  if (model) add_tied(*model, tensors);
  return tensors;
}

std::vector<TorchTensor> optimizer_state(Checkpoint& from) {
  std::vector<TorchTensor> tensors;
  for (const std::string& name : names_of(from, model_of(from)))
    for (const std::string_view state : states_of_torch) {
      const auto tensor = from.find(tensor_name(state, name));
      if (!tensor) continue;
      if (state == "exp_avg") tensors.push_back(step_of(from, name));
      tensors.push_back(tensor_of(from, name, std::string(state), *tensor));
    }
  return tensors;
}

std::optional<Job> job_of(const Checkpoint& from) {
  const std::string& text = from.index().job;
  const std::string where = (from.folder() / checkpoint_index_name).string();
  if (!JsonValue::parse(text, where).has("model")) return std::nullopt;
  return read_job_text(text, where);
}

std::vector<TorchGroup> param_groups(const Checkpoint& from, const Job& job, TorchGrouping by) {
  const Model model = read_model(from.config(), {.class_name = {}, .dtype = Dtype::float32});
  const Optimizer& optimizer = job.optimizer;
  if (by == TorchGrouping::one && !optimizer.groups.empty())
    throw Error({.where = from.folder().string(),
                 .what = "its job has groups of parameters with rates of their own",
                 .way_out = "leave --groups out"});
  const double rate = learning_rate(job.learning_rate, from.index().progress.step, job.steps);
  const Trained is_trained(from);
  const std::vector<int> group_of = groups_of_parameters(model, optimizer);
  // By the job's group and whether they decay: those that do come first.
  std::map<std::pair<int, bool>, TorchGroup> groups;
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const Parameter& parameter = model.parameters[p];
    if (!is_trained(parameter.name)) continue;
    const ParameterGroup own = group_of[p] < 0
                                   ? ParameterGroup{}
                                   : optimizer.groups[static_cast<std::size_t>(group_of[p])];
    const bool decays = by == TorchGrouping::one || own.weight_decay || parameter.shape.size() >= 2;
    TorchGroup& group = groups[{group_of[p], !decays}];
    group.parameters.push_back(parameter.name);
    group.rate = rate * own.rate;
    group.first_rate = job.learning_rate.peak * own.rate;
    group.weight_decay = decays ? own.weight_decay.value_or(optimizer.weight_decay) : 0;
  }
  std::vector<TorchGroup> all;
  for (auto& [key, group] : groups) all.push_back(std::move(group));
  return all;
}

// Keys: torch 2.15, torch/optim/adamw.py, adam.py and sgd.py; initial_lr is lr_scheduler.py's.
std::vector<std::pair<std::string, std::string>> settings_of(const TorchGroup& group,
                                                             const Optimizer& optimizer) {
  const std::string none(pickled_none), no = pickled_boolean(false);
  std::vector<std::pair<std::string, std::string>> settings{
      {"lr", pickled_real(group.rate)},
      {"initial_lr", pickled_real(group.first_rate)},
      {"weight_decay", pickled_real(group.weight_decay)},
      {"maximize", no},
      {"foreach", none},
      {"differentiable", no},
      {"fused", none}};
  if (optimizer.kind == OptimizerKind::adamw) {
    settings.emplace_back(
        "betas", pickled_tuple(pickled_real(optimizer.beta1) + pickled_real(optimizer.beta2)));
    settings.emplace_back("eps", pickled_real(optimizer.epsilon));
    settings.emplace_back("amsgrad", no);
    settings.emplace_back("capturable", no);
    settings.emplace_back("decoupled_weight_decay", pickled_boolean(true));
  } else {
    settings.emplace_back("momentum", pickled_real(optimizer.momentum));
    settings.emplace_back("dampening", pickled_real(0));
    settings.emplace_back("nesterov", pickled_boolean(optimizer.nesterov));
  }
  return settings;
}

// Keys: torch 2.15, torch/optim/lr_scheduler.py, LRScheduler and LambdaLR. A function has no state.
std::string pickled_schedule(const std::vector<TorchGroup>& groups, std::int64_t steps) {
  std::string functions;
  for (std::size_t i = 0; i < groups.size(); ++i) functions += pickled_none;
  return pickled_dict(pickled("base_lrs") + real_list(groups, &TorchGroup::first_rate) +
                      pickled("last_epoch") + pickled(steps) + pickled("_step_count") +
                      pickled(steps + 1) + pickled("_is_initial") + pickled_boolean(false) +
                      pickled("_get_lr_called_within_step") + pickled_boolean(false) +
                      pickled("_last_lr") + real_list(groups, &TorchGroup::rate) +
                      pickled("lr_lambdas") + pickled_list(functions));
}

}  // namespace shardscope
