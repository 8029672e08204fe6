#include "core/pytorch/plans/deepspeed_zero3.h"

#include <fmt/format.h>

#include <set>

#include "core/base/refusal.h"

namespace shardscope {
namespace {

const TreeParameter& parameter_of(const ModuleTree& tree, std::int32_t id) {
  return tree.parameters[static_cast<std::size_t>(id)];
}

Zero3Parameter partitioned(const ModuleTree& tree, std::int32_t id, int world) {
  const std::int64_t elements = parameter_of(tree, id).elements();
  const std::int64_t partition = elements / world + (elements % world != 0 ? 1 : 0);
  return {.parameter = id,
          .partition_elements = partition,
          .padding_elements = partition * world - elements};
}

/// _create_fp16_sub_groups.
void add_sub_groups(const ModuleTree& tree, const std::vector<std::int32_t>& trained,
                    int optimizer_group, const ZeroSettings& settings, Zero3Plan& plan) {
  std::int64_t all = 0;
  for (const std::int32_t id : trained)
    all += partitioned(tree, id, settings.world).partition_elements;
  const bool whole = settings.sub_group_size >= all;
  Zero3SubGroup open{.parameters = {}, .optimizer_group = optimizer_group};
  for (const std::int32_t id : trained) {
    open.parameters.push_back(id);
    open.partition_elements += partitioned(tree, id, settings.world).partition_elements;
    const bool full = !whole && open.partition_elements >= settings.sub_group_size;
    if (!full && id != trained.back()) continue;
    plan.partition_elements += open.partition_elements;
    plan.sub_groups.push_back(std::move(open));
    open = {.parameters = {}, .optimizer_group = optimizer_group};
  }
}

/// utils.defragment, which lays all partitions into one buffer.
void check_one_dtype(const ModuleTree& tree, const ZeroSettings& settings, const Zero3Plan& plan) {
  std::set<Dtype> dtypes;
  for (const Zero3SubGroup& group : plan.sub_groups)
    for (const std::int32_t id : group.parameters)
      dtypes.insert(dtype_under(settings, parameter_of(tree, id)));
  if (dtypes.size() == 1) return;
  throw Refusal(
      "AssertionError",
      {.where = "optimizer",
       .what = dtypes.empty() ? std::string("no parameter is trained")
                              : fmt::format("stage 3 trains parameters in {} and {}",
                                            name_of(*dtypes.begin()), name_of(*dtypes.rbegin())),
       .way_out = dtypes.empty() ? "train some" : "enable bf16 or fp16"});
}

/// mark_persistent_parameters: a parameter that would go over the model's threshold is skipped, and
/// later ones may still fit.
void mark_persistent(const ModuleTree& tree, const ZeroSettings& settings, Zero3Plan& plan) {
  std::int64_t left = settings.model_persistence_threshold;
  for (Zero3Parameter& p : plan.parameters) {
    const std::int64_t elements = parameter_of(tree, p.parameter).elements();
    if (elements > left || elements > settings.parameter_persistence_threshold) continue;
    left -= elements;
    p.persistent = true;
    plan.persistent_parameters.push_back(p.parameter);
  }
}

}  // namespace

Zero3Plan zero3_plan(const ModuleTree& tree, const OptimizerGroups& groups,
                     const ZeroSettings& settings) {
  refuse_scalars(tree);
  Zero3Plan plan;
  for (const std::int32_t id : all_parameters(tree))
    plan.parameters.push_back(partitioned(tree, id, settings.world));
  mark_persistent(tree, settings, plan);
  int optimizer_group = 0;
  for (const std::vector<std::int32_t>& parameters : groups) {
    if (parameters.empty()) continue;
    std::vector<std::int32_t> trained;
    for (const std::int32_t id : parameters)
      if (is_optimized(parameter_of(tree, id))) trained.push_back(id);
    add_sub_groups(tree, trained, optimizer_group++, settings, plan);
  }
  check_one_dtype(tree, settings, plan);
  return plan;
}

std::int64_t booked_padding(const Zero3Parameter& parameter, int rank, int world) {
  return rank == world - 1 ? parameter.padding_elements : 0;
}

}  // namespace shardscope
