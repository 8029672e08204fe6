#include "tests/recordings/ports/sharding_propagation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace shardscope::eager::fsdp2 {
namespace {

constexpr std::string_view detach_name = "aten.detach.default";

/// Operators on what is inside a DTensor, and one whose result is none.
bool is_local(std::string_view name) {
  return name.starts_with("_c10d_functional.") || name.starts_with("profiler.") ||
         name == "aten._local_scalar_dense.default";
}

/// A norm of norms is redistributed before it runs, and that by powers of local tensors; the
/// propagation comes before both.
std::string_view dispatched_as(std::string_view name) {
  return name == "aten.pow.Tensor_Scalar" ? "aten.linalg_vector_norm.default" : name;
}

std::string described(const TensorImpl& tensor, const std::vector<std::int64_t>& global_sizes) {
  return fmt::format(" {}{}", name_of(tensor.layout.dtype), global_sizes);
}

}  // namespace

ShardingPropagation::ShardingPropagation(FullySharded& sharded) : sharded_(sharded) {
  sharded.watch(*this);
  for (const auto& state : sharded_.states()) {
    if (!state->group()) continue;
    for (const auto& parameter : state->group()->parameters()) {
      const Dims& sizes = parameter->size();
      known_.insert(std::string(detach_name) + described(*parameter->sharded_param().impl(),
                                                         Sizes(sizes.begin(), sizes.end())));
    }
  }
}

ShardingPropagation::Place ShardingPropagation::place_of(const TensorImpl& tensor) {
  Place place{static_cast<std::int64_t>(tensor.storage->id()), tensor.layout.offset};
  place.insert(place.end(), tensor.layout.sizes.begin(), tensor.layout.sizes.end());
  return place;
}

void ShardingPropagation::add(const Tensor& tensor, const Dims& global_sizes) {
  global_sizes_[place_of(*tensor.impl())] = Sizes(global_sizes.begin(), global_sizes.end());
}

void ShardingPropagation::begin_updates() {
  in_updates_ = true;
  for (const auto& state : sharded_.states()) {
    if (!state->group()) continue;
    for (const auto& parameter : state->group()->parameters()) {
      add(parameter->sharded_param(), parameter->size());
      if (const Tensor& gradient = parameter->sharded_param().grad())
        add(gradient, parameter->size());
    }
  }
}

void ShardingPropagation::add_outputs(const OperatorCall& call) {
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    if (!call.outputs[i]) continue;
    const TensorImpl& output = *call.outputs[i];
    Sizes sizes(output.layout.sizes.begin(), output.layout.sizes.end());
    // Results of the inputs' shapes have their global ones, element by element of a list.
    const TensorImpl* input = i < call.inputs.size() ? call.inputs[i] : nullptr;
    if (input && input->layout.sizes == output.layout.sizes)
      if (const auto at = global_sizes_.find(place_of(*input)); at != global_sizes_.end())
        sizes = at->second;
    global_sizes_.try_emplace(place_of(output), std::move(sizes));
  }
}

std::int64_t ShardingPropagation::operators_before(const OperatorCall& call) {
  if (in_updates_) return before_update(call);
  return resharding_ && call.op.name == detach_name ? before_reshard(call) : 0;
}

std::int64_t ShardingPropagation::before_update(const OperatorCall& call) {
  std::string schema(dispatched_as(call.op.name));
  std::int64_t tensors = 0;
  bool any = false;
  for (const TensorImpl* input : call.inputs) {
    if (!input || input->wrapped_number) continue;
    ++tensors;
    const auto at = global_sizes_.find(place_of(*input));
    any = any || at != global_sizes_.end();
    schema += at == global_sizes_.end() ? " local" : described(*input, at->second);
  }
  if (!any) return 0;
  add_outputs(call);
  if (is_local(call.op.name) || !known_.insert(schema).second) return 0;
  return tensors + 1;
}

std::int64_t ShardingPropagation::before_reshard(const OperatorCall& call) {
  const Dims& sizes = resharding_->parameters()[next_++]->size();
  const Ranks& ranks = resharding_->post_forward_mesh()->shard->ranks;
  const std::string schema =
      fmt::format("{}{} over ranks {}", detach_name,
                  described(*call.inputs.front(), Sizes(sizes.begin(), sizes.end())), ranks.list());
  return known_.insert(schema).second ? 2 : 0;
}

void ShardingPropagation::on_enter(Session&, const Visit& visit) {
  if (visit.site != Site::reshard) return;
  resharding_ = visit.group;
  next_ = 0;
}

void ShardingPropagation::on_leave(Session&, const Visit& visit) {
  if (visit.site == Site::reshard) resharding_ = nullptr;
}

}  // namespace shardscope::eager::fsdp2
