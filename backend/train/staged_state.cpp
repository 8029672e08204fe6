#include "backend/train/staged_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backend/train/parameter_gather.h"
#include "core/base/precision.h"

namespace shardscope {
namespace {

constexpr std::int64_t elements_at_once = std::int64_t{1} << 22;
constexpr std::int64_t alignment = 64;  ///< bytes, of tensors in the staging memory

std::int64_t aligned(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

std::int64_t bytes_of_tensor(const TensorToWrite& tensor) {
  return elements_of(tensor.shape) * size_of(tensor.key.dtype).count;
}

StoredPiece piece_of(const Model& model, std::string_view state, const StoredPart& part) {
  const Parameter& parameter = model.parameters[part.parameter.value];
  return {.tensor = tensor_name(state, parameter.name),
          .shape = parameter.shape,
          .first = part.parameter_offset,
          .elements = part.elements};
}

/// A frozen parameter has no master copy, so that its storage may be rounded: then its start weight
/// is what is saved.
bool is_rounded(const UnitStorage& storage, const Model& model) {
  return storage.dtype != Dtype::float32 &&
         !model.parameters[storage.unit->slots.front().parameter.value].trainable;
}

}  // namespace

FlatStretch written_stretch(const UnitStorage& storage, const Mesh& mesh, int rank) {
  // Each stage of a pipeline has units of its own, and all of its ranks hold them.
  const int in_stage = rank % (mesh.replicate * mesh.shard);
  if (storage.is_whole()) {
    const std::int64_t each = storage.unit->padded_elements / (mesh.replicate * mesh.shard);
    return {.first = in_stage * each, .elements = each};
  }
  const std::int64_t each = storage.elements / mesh.replicate;
  return {.first = storage.first + in_stage / mesh.shard * each, .elements = each};
}

void StagedState::stage(CheckpointKind kind, Trainer& trainer, Communicator& world) {
  if (kind == CheckpointKind::full) return gather(trainer, world);
  plan_shards(kind, trainer, world.rank());
  copy(trainer);
}

void StagedState::plan_shards(CheckpointKind kind, Trainer& trainer, int rank) {
  const Executor& executor = trainer.executor();
  const Mesh& mesh = executor.schedule().strategy.mesh;
  tensors_.clear();
  sources_.clear();
  storages_.clear();
  storages_.reserve(1 + optimizer_states.size());
  const auto plan = [&](std::string_view state, std::vector<UnitStorage> storages) {
    storages_.push_back(std::move(storages));
    for (const UnitStorage& storage : storages_.back()) {
      const bool as_parameters =
          kind == CheckpointKind::sharded || is_rounded(storage, trainer.model());
      if (as_parameters)
        plan_parameters(storage, written_stretch(storage, mesh, rank), state, trainer);
      else
        plan_flat(storage, state, trainer);
    }
  };
  plan(parameters_state, exact_storages(executor));
  for (const OptimizerState& state : optimizer_states)
    plan(state.name, state_storages(executor, state));
}

void StagedState::plan_parameters(const UnitStorage& storage, const FlatStretch& stretch,
                                  std::string_view state, const Trainer& trainer) {
  const bool rounded = is_rounded(storage, trainer.model());
  for (const StoredPart& part :
       stored_parts(trainer.model(), *storage.unit, stretch.first, stretch.elements)) {
    StoredPiece piece = piece_of(trainer.model(), state, part);
    Source source{.storage = &storage, .begin = stretch.first - storage.first + part.offset};
    if (rounded) source = {.begin = part.parameter_offset, .start_weight = part.parameter};
    sources_.push_back(source);
    tensors_.push_back({.key = {.key = piece.tensor,
                                .dtype = rounded ? Dtype::float32 : storage.dtype,
                                .pieces = {piece}},
                        .shape = {part.elements}});
  }
}

void StagedState::plan_flat(const UnitStorage& storage, std::string_view state,
                            const Trainer& trainer) {
  const Unit& unit = *storage.unit;
  TensorToWrite tensor{
      .key = {.key = fmt::format("{}:{}", state, unit.name.empty() ? "root" : unit.name),
              .dtype = storage.dtype},
      .shape = {storage.elements}};
  for (const StoredPart& part :
       stored_parts(trainer.model(), unit, storage.first, storage.elements)) {
    tensor.key.pieces.push_back(piece_of(trainer.model(), state, part));
    tensor.key.pieces.back().key_first = part.offset;
  }
  sources_.push_back({.storage = &storage, .begin = 0});
  tensors_.push_back(std::move(tensor));
}

void StagedState::copy(Trainer& trainer) {
  std::int64_t total = 0;
  for (const TensorToWrite& tensor : tensors_) total += aligned(bytes_of_tensor(tensor));
  if (static_cast<std::int64_t>(memory_.size()) < total)
    memory_ = MemoryMapping::anonymous(Bytes{total});
  std::byte* to = memory_.data();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Source& source = sources_[i];
    const std::int64_t bytes = bytes_of_tensor(tensors_[i]);
    const std::span<std::byte> room(to, static_cast<std::size_t>(bytes));
    if (source.storage) {
      const std::byte* from =
          source.storage->memory.data() + source.begin * size_of(source.storage->dtype).count;
      source.storage->device->copy_out(room, from);
    } else {
      const auto elements = static_cast<std::size_t>(elements_of(tensors_[i].shape));
      trainer.start_weights()(source.start_weight, source.begin,
                              {reinterpret_cast<float*>(to), elements});
    }
    tensors_[i].bytes = room;
    to += aligned(bytes);
  }
}

void StagedState::gather(Trainer& trainer, Communicator& world) {
  const Model& model = trainer.model();
  Executor& executor = trainer.executor();
  const std::vector<UnitPlan> plans = trainer.unit_plans();
  const bool rounds_frozen =
      dtypes_of(executor.schedule().strategy.precision).compute != Dtype::float32;
  whole_.clear();

  ParameterGather parameters(model, plans, executor, world);
  gather_whole(parameters_state, trainer, world, [&](ParameterId p) {
    const bool is_rounded = rounds_frozen && !model.parameters[p.value].trainable;
    return is_rounded ? nullptr : &parameters;
  });
  for (const OptimizerState& state : optimizer_states) {
    if (!keeps_state(trainer.schedule().workload.optimizer, state)) continue;
    ParameterGather values(model, plans, executor, world, state_storages(executor, state));
    gather_whole(state.name, trainer, world, [&](ParameterId) { return &values; });
  }
}

/// `from`: where a parameter's values are gathered from; null: they are the start weights.
void StagedState::gather_whole(std::string_view state, Trainer& trainer, Communicator& world,
                               const std::function<ParameterGather*(ParameterId)>& from) {
  const Model& model = trainer.model();
  WholeTensors whole{.state = std::string(state), .by_parameter = {}};
  whole.by_parameter.resize(model.parameters.size());
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    if (state != parameters_state && !model.parameters[p].trainable) continue;
    const std::int64_t elements = model.parameters[p].elements();
    std::vector<float>& values = whole.by_parameter[p];
    if (world.rank() == 0) values.resize(static_cast<std::size_t>(elements));
    ParameterGather* const gather = from(ParameterId::of(p));
    for (std::int64_t first = 0; first < elements; first += elements_at_once) {
      const std::int64_t count = std::min(elements_at_once, elements - first);
      const std::span<float> out = values.empty()
                                       ? std::span<float>()
                                       : std::span(values).subspan(static_cast<std::size_t>(first),
                                                                   static_cast<std::size_t>(count));
      if (gather)
        gather->gather(ParameterId::of(p), first, count, out);
      else if (world.rank() == 0)
        trainer.start_weights()(ParameterId::of(p), first, out);
    }
  }
  if (world.rank() == 0) whole_.push_back(std::move(whole));
}

std::int64_t StagedState::bytes() const {
  std::int64_t bytes = 0;
  for (const TensorToWrite& tensor : tensors_) bytes += bytes_of_tensor(tensor);
  for (const WholeTensors& whole : whole_)
    for (const std::vector<float>& values : whole.by_parameter)
      bytes += static_cast<std::int64_t>(values.size() * sizeof(float));
  return bytes;
}

std::vector<WholeState> StagedState::whole_states() const {
  std::vector<WholeState> states;
  for (const WholeTensors& whole : whole_)
    states.push_back(
        {.name = whole.state,
         .source = [&whole](ParameterId parameter, std::int64_t first, std::span<float> out) {
           const auto& values = whole.by_parameter[parameter.value];
           std::copy_n(values.begin() + first, out.size(), out.begin());
         }});
  return states;
}

}  // namespace shardscope
