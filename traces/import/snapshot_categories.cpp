#include "traces/import/snapshot_categories.h"

#include <algorithm>
#include <array>
#include <map>

#include "traces/held_sum.h"

namespace shardscope {
namespace {

using Category = MemoryCategory;

/// The narrow ones first: a forward hook gathers parameters, a step of an optimizer runs kernels.
/// Workspaces are in every phase (ATen/cuda/CublasHandlePool.cpp).
const FrameRules own_rules{
    {"", "CUDABlasWorkspace", Category::workspace},
    {"", "CUDABlasLtWorkspace", Category::workspace},
    {"_fsdp_collectives.py", "", Category::communication},
    {"_fsdp_param.py", "all_gather_outputs", Category::parameters},
    {"_fsdp_param.py", "", Category::parameters},
    {"_fsdp_param_group.py", "post_backward", Category::communication},
    {"_flat_param.py", "unsharded_flat_param", Category::parameters},
    {"_flat_param.py", "prepare_gradient", Category::gradients},
    {"_flat_param.py", "", Category::parameters},
    {"_runtime_utils.py", "_reduce_grad", Category::communication},
    {"torch/nn/parallel/distributed.py", "_ddp_init_helper", Category::communication},
    {"optimizer.py", "_init_group", Category::optimizer_states},
    {".py", "_init_group", Category::optimizer_states},
    {"torch/optim/sgd.py", "", Category::optimizer_states},
    {".py", "_multi_tensor_", Category::temporaries},
    {".py", "_single_tensor_", Category::temporaries},
    {"torch/nn/utils/clip_grad.py", "", Category::temporaries},
    {"torch/nn/modules/module.py", "convert", Category::parameters},
    {"torch/nn/modules/module.py", "_apply", Category::parameters},
    {"", "torch::autograd::Engine", Category::gradients},
    {"torch/autograd/__init__.py", "_make_grads", Category::gradients},
    {"torch/autograd/graph.py", "_engine_run_backward", Category::gradients},
    {"", "forward", Category::activations}};

/// torch.profiler's names (torch/profiler/_memory_profiler.py, Category).
constexpr std::array<std::pair<std::string_view, Category>, 7> profiler_names{
    {{"parameter", Category::parameters},
     {"optimizer_state", Category::optimizer_states},
     {"input", Category::inputs},
     {"temporary", Category::temporaries},
     {"activation", Category::activations},
     {"autograd_detail", Category::activations},
     {"gradient", Category::gradients}}};

bool fits(const MemorySnapshot& snapshot, const FrameRule& rule, std::uint32_t stack) {
  const auto frames = snapshot.stack(stack);
  return std::any_of(frames.begin(), frames.end(), [&](std::uint32_t frame) {
    const SnapshotFrame& of = snapshot.frames[frame];
    return snapshot.names[of.file].ends_with(rule.file) &&
           snapshot.names[of.name].find(rule.function) != std::string::npos;
  });
}

std::optional<Category> profiled_category(const MemorySnapshot& snapshot,
                                          const SnapshotEvents& events, std::uint32_t event) {
  const std::uint32_t name = events.category[event];
  if (name == no_name) return std::nullopt;
  for (const auto& [known, category] : profiler_names) {
    if (snapshot.names[name] == known) return category;
  }
  return std::nullopt;
}

bool is_profiled(const SnapshotEvents* events) {
  for (std::size_t i = 0; events != nullptr && i < events->count(); ++i) {
    if (events->category[i] != no_name) return true;
  }
  return false;
}

}  // namespace

const FrameRules& frame_rules() { return own_rules; }

std::optional<MemoryCategory> category_of(const MemorySnapshot& snapshot, std::uint32_t stack,
                                          const FrameRules& rules) {
  for (const FrameRule& rule : rules) {
    if (fits(snapshot, rule, stack)) return rule.category;
  }
  return std::nullopt;
}

BlockCategories::BlockCategories(const MemorySnapshot& snapshot, std::int64_t device,
                                 const FrameRules& rules)
    : snapshot_(snapshot),
      events_(snapshot.events_of(device)),
      rules_(rules),
      by_profiler_(is_profiled(events_)) {}

std::optional<MemoryCategory> BlockCategories::of(const LiveBlock& block) {
  if (by_profiler_) {
    if (!block.event) return std::nullopt;
    return profiled_category(snapshot_, *events_, *block.event);
  }
  const auto [at, is_new] = of_stack_.try_emplace(block.stack);
  if (is_new) at->second = category_of(snapshot_, block.stack, rules_);
  return at->second;
}

std::vector<MemoryOwner> owners_by_category(const MemorySnapshot& snapshot, std::int64_t device,
                                            std::span<const LiveBlock> blocks,
                                            const FrameRules& rules) {
  BlockCategories categories(snapshot, device, rules);
  std::map<std::string_view, MemoryOwner> owners;
  for (const LiveBlock& block : blocks) {
    const std::optional<Category> category = categories.of(block);
    const std::string_view name = category ? name_of(*category) : "unknown";
    MemoryOwner& owner = owners[name];
    owner.name = name;
    ++owner.blocks;
    owner.bytes = held_sum(owner.bytes, block.size);
  }
  std::vector<MemoryOwner> sorted;
  for (const auto& [name, owner] : owners) sorted.push_back(owner);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const MemoryOwner& a, const MemoryOwner& b) { return a.bytes > b.bytes; });
  return sorted;
}

}  // namespace shardscope
