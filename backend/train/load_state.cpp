#include "backend/train/load_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "backend/train/parameter_storage.h"
#include "backend/train/start_weights.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

ParameterSource saved_state(std::shared_ptr<Checkpoint> checkpoint, const Model& model,
                            std::string state) {
  return [checkpoint = std::move(checkpoint), &model, state = std::move(state)](
             ParameterId parameter, std::int64_t first, std::span<float> out) {
    checkpoint->read(tensor_name(state, model.parameters[parameter.value].name), first, out);
  };
}

void require_tensor(const Checkpoint& checkpoint, const Parameter& parameter,
                    std::string_view state) {
  const std::string name = tensor_name(state, parameter.name);
  const auto saved = checkpoint.find(name);
  const auto refuse = [&](std::string what) {
    return Error({.where = checkpoint.folder().string(),
                  .what = std::move(what),
                  .way_out = "resume with the model, trainable parameters and optimizer that it "
                             "was saved with"});
  };
  if (!saved)
    throw refuse(fmt::format("{} is not in the checkpoint, which has {}", name,
                             fmt::join(checkpoint.states(), ", ")));
  if (saved->shape != parameter.shape)
    throw refuse(fmt::format("{} has the shape [{}], the model's has [{}]", name,
                             fmt::join(saved->shape, ", "), fmt::join(parameter.shape, ", ")));
}

}  // namespace

ParameterSource saved_parameters(std::shared_ptr<Checkpoint> checkpoint, const Model& model) {
  return saved_state(std::move(checkpoint), model, std::string(parameters_state));
}

void require_loadable(const Checkpoint& checkpoint, const Model& model,
                      const Optimizer& optimizer) {
  for (const Parameter& parameter : model.parameters) {
    require_tensor(checkpoint, parameter, parameters_state);
    if (!parameter.trainable) continue;
    for (const OptimizerState& state : optimizer_states)
      if (keeps_state(optimizer, state)) require_tensor(checkpoint, parameter, state.name);
  }
}

void load_state(const std::shared_ptr<Checkpoint>& checkpoint, const Model& model,
                const Executor& executor) {
  require_loadable(*checkpoint, model, executor.schedule().workload.optimizer);
  load_start_weights(saved_parameters(checkpoint, model), model, executor);
  for (const OptimizerState& state : optimizer_states)
    fill_storages(saved_state(checkpoint, model, std::string(state.name)), model,
                  state_storages(executor, state));
}

void clear_optimizer_states(const Model& model, const Executor& executor) {
  const ParameterSource zeros = [](ParameterId, std::int64_t, std::span<float> out) {
    std::ranges::fill(out, 0.0F);
  };
  for (const OptimizerState& state : optimizer_states)
    fill_storages(zeros, model, state_storages(executor, state));
}

}  // namespace shardscope
