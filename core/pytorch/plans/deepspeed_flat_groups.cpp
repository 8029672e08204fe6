#include "core/pytorch/plans/deepspeed_flat_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/base/refusal.h"

namespace shardscope {
namespace {

constexpr std::int64_t alignment_bytes = 16;
/// nccl_start_alignment_factor: 4 bytes in elements of 2 bytes, whatever the dtype.
constexpr std::int64_t start_alignment_elements = 2;

const TreeParameter& parameter_of(const ModuleTree& tree, std::int32_t id) {
  return tree.parameters[static_cast<std::size_t>(id)];
}

std::int64_t padding_to(std::int64_t elements, std::int64_t multiple) {
  return (multiple - elements % multiple) % multiple;
}

/// _round_robin_reorder: every world-th parameter, from the first on, then from the second.
std::vector<std::int32_t> round_robin(const std::vector<std::int32_t>& parameters, int world) {
  std::vector<std::int32_t> reordered;
  const auto step = static_cast<std::size_t>(world);
  for (std::size_t first = 0; first < std::min(step, parameters.size()); ++first)
    for (std::size_t i = first; i < parameters.size(); i += step)
      reordered.push_back(parameters[i]);
  return reordered;
}

/// torch.cat of parameters in several dtypes: the wider one, float32 for two 16-bit ones.
Dtype promoted(const ModuleTree& tree, const std::vector<std::int32_t>& parameters,
               const ZeroSettings& settings) {
  Dtype result = dtype_under(settings, parameter_of(tree, parameters.front()));
  for (const std::int32_t id : parameters) {
    const Dtype next = dtype_under(settings, parameter_of(tree, id));
    if (next == result) continue;
    if (size_of(next) == size_of(result))
      result = Dtype::float32;
    else if (size_of(next) > size_of(result))
      result = next;
  }
  return result;
}

std::int64_t parameter_alignment(const ModuleTree& tree, const std::vector<std::int32_t>& trained,
                                 const ZeroSettings& settings) {
  if (!settings.parameter_alignment || zero_optimizer(settings) == ZeroOptimizer::bf16) return 1;
  const Bytes element = size_of(dtype_under(settings, parameter_of(tree, trained.front())));
  return alignment_bytes / std::gcd(alignment_bytes, element.count);
}

/// Places the parameters one after the other, each but the last padded to `alignment`.
void place(const ModuleTree& tree, std::int64_t alignment, ZeroFlatGroup& group) {
  for (const std::int32_t id : group.parameters) {
    group.offsets.push_back(group.used_elements);
    group.used_elements += parameter_of(tree, id).elements();
    const bool last = group.offsets.size() == group.parameters.size();
    group.padding.push_back(last ? 0 : padding_to(group.used_elements, alignment));
    group.used_elements += group.padding.back();
  }
}

ZeroFlatGroup flat_group(const ModuleTree& tree, const std::vector<std::int32_t>& parameters,
                         const ZeroSettings& settings) {
  ZeroFlatGroup group;
  for (const std::int32_t id : parameters)
    if (is_optimized(parameter_of(tree, id))) group.parameters.push_back(id);
  const bool bf16 = zero_optimizer(settings) == ZeroOptimizer::bf16;
  if (group.parameters.empty())
    throw Refusal(
        bf16 ? "ValueError" : "IndexError",
        {.where = "optimizer",
         .what = fmt::format("a group of {} parameters has none to train", parameters.size()),
         .way_out = "leave frozen parameters out of the optimizer, or use stage 3"});
  const std::int64_t alignment = parameter_alignment(tree, group.parameters, settings);
  group.dtype = promoted(tree, group.parameters, settings);
  if (settings.round_robin_gradients && !bf16)
    group.parameters = round_robin(group.parameters, settings.world);
  place(tree, alignment, group);
  group.flat_elements = group.used_elements +
                        padding_to(group.used_elements, start_alignment_elements * settings.world);
  group.partition_elements = group.flat_elements / settings.world;
  return group;
}

}  // namespace

std::vector<ZeroFlatGroup> zero_flat_groups(const ModuleTree& tree, const OptimizerGroups& groups,
                                            const ZeroSettings& settings) {
  refuse_scalars(tree);
  std::vector<ZeroFlatGroup> flat;
  for (const std::vector<std::int32_t>& parameters : groups)
    if (!parameters.empty()) flat.push_back(flat_group(tree, parameters, settings));
  return flat;
}

ZeroPartition zero_partition(const ModuleTree& tree, const ZeroFlatGroup& group, int rank) {
  const std::int64_t begin = group.partition_elements * rank;
  const std::int64_t end = begin + group.partition_elements;
  ZeroPartition partition;
  partition.padding_elements =
      std::clamp(end - group.used_elements, std::int64_t{0}, group.partition_elements);
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const std::int64_t first = group.offsets[i];
    const std::int64_t past = first + parameter_of(tree, group.parameters[i]).elements();
    const bool starts_here = begin <= first && first < end;
    const bool goes_on_here = first < begin && begin < past;
    if (starts_here || goes_on_here) partition.parameters.push_back(group.parameters[i]);
    if (goes_on_here) partition.first_offset = begin - first;
  }
  return partition;
}

std::int64_t booked_padding(const ZeroFlatGroup& group, int rank) {
  const bool last = group.partition_elements * (rank + 1) == group.flat_elements;
  return last ? group.flat_elements - group.used_elements : 0;
}

}  // namespace shardscope
