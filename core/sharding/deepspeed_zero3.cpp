#include "core/sharding/deepspeed_zero3.h"

#include <fmt/format.h>

#include <set>

#include "core/refusal.h"

namespace shardscope {
namespace {

const TreeParameter& parameter_of(const ModuleTree& tree, std::int32_t id) {
  return tree.parameters[static_cast<std::size_t>(id)];
}

/// Parameters that fit the thresholds, one after the other: one that would go over the model's is
/// skipped, and later ones may still fit.
std::vector<std::int32_t> persistent(const ModuleTree& tree,
                                     const std::vector<std::int32_t>& parameters,
                                     std::int64_t parameter_threshold, std::int64_t model_threshold,
                                     std::int64_t& persisted) {
  std::vector<std::int32_t> chosen;
  for (const std::int32_t id : parameters) {
    const std::int64_t elements = parameter_of(tree, id).elements();
    if (elements > parameter_threshold || elements > model_threshold - persisted) continue;
    chosen.push_back(id);
    persisted += elements;
  }
  return chosen;
}

/// The order in which zero.Init meets parameters: those of a module when its constructor ends, so
/// children before their parent.
std::vector<std::int32_t> construction_order(const ModuleTree& tree) {
  struct Frame {
    std::int32_t module;
    std::size_t next = 0;
  };
  std::vector<std::int32_t> order;
  std::vector<Frame> stack{{.module = 0}};
  while (!stack.empty()) {
    Frame& frame = stack.back();
    const TreeModule& module = tree.modules[static_cast<std::size_t>(frame.module)];
    if (frame.next < module.children.size()) {
      stack.push_back({.module = module.children[frame.next++]});
      continue;
    }
    for (const std::int32_t id : module.parameters)
      if (!parameter_of(tree, id).same_as) order.push_back(id);
    stack.pop_back();
  }
  return order;
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

void mark_persistent(const ModuleTree& tree, const ZeroSettings& settings, Zero3Plan& plan) {
  const std::vector<std::int32_t> all = all_parameters(tree);
  const std::int64_t threshold = settings.parameter_persistence_threshold;
  const std::int64_t model_threshold = settings.model_persistence_threshold;
  plan.persisted_elements = settings.persisted_before;
  const std::vector<std::int32_t> converted =
      persistent(tree, settings.zero_init ? construction_order(tree) : all, threshold,
                 model_threshold / settings.world, plan.persisted_elements);
  std::int64_t listed = 0;
  plan.persistent_parameters = persistent(tree, all, threshold, model_threshold, listed);
  std::set<std::int32_t> marked(converted.begin(), converted.end());
  marked.insert(plan.persistent_parameters.begin(), plan.persistent_parameters.end());
  for (Zero3Parameter& parameter : plan.parameters)
    parameter.persistent = marked.contains(parameter.parameter);
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
