#include <algorithm>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/object_collectives.h"
#include "core/pytorch/runtimes/fsdp1/passes.h"
#include "core/pytorch/runtimes/fsdp1/state_dict_walk.h"

namespace shardscope::eager::fsdp1 {
namespace {

Site pre_site(StateDictType type) {
  constexpr Site sites[] = {Site::full_pre_state_dict, Site::local_pre_state_dict,
                            Site::sharded_pre_state_dict};
  return sites[static_cast<std::size_t>(type)];
}

Site post_site(StateDictType type) {
  constexpr Site sites[] = {Site::full_post_state_dict, Site::local_post_state_dict,
                            Site::sharded_post_state_dict};
  return sites[static_cast<std::size_t>(type)];
}

class Saving : private StateDictWalk {
 public:
  Saving(Session& s, FullySharded& model, const StateDictOptions& options)
      : StateDictWalk(s, model, options.type), options_(options) {}

  StateDict run() {
    const NoGrad no_grad(s_);
    visit(model_.module(), "");
    return std::move(dict_);
  }

 private:
  void visit(Module& module, const std::string& name) {
    const Unit* unit = model_.unit_of(module);
    if (unit) before(*model_.unit_of(module));
    for (std::size_t i = 0; i < module.parameters.size(); ++i)
      if (is_registered(module, i))
        add(joined_name(name, module.parameters[i].name), module.parameters[i].tensor);
    for (const Module::NamedTensor& own : module.buffers)
      if (own.persistent && own.tensor) add(joined_name(name, own.name), own.tensor);
    for (const Module::Child& child : module.children)
      visit(*child.module,
            child.module->name == module.name ? name : joined_name(name, child.name));
    if (unit) after(*unit);
  }

  void add(std::string name, const Tensor& tensor) {
    dict_.push_back({.name = std::move(name),
                     .tensor = detach(s_, tensor),
                     .sizes = tensor.sizes(),
                     .is_sharded = false});
  }

  StateEntry* find(const std::string& name) {
    const auto entry = std::find_if(dict_.rbegin(), dict_.rend(),
                                    [&](const StateEntry& e) { return e.name == name; });
    return entry == dict_.rend() ? nullptr : &*entry;
  }

  bool is_rank0_only(const Unit& unit) const {
    return type_of(unit) == type_ && type_ == StateDictType::full && options_.rank0_only;
  }

  bool offloads(const Unit& unit) const {
    return type_of(unit) == type_ && options_.offload_to_cpu;
  }

  void before(Unit& unit) {
    const StateDictType type = type_of(unit);
    check(unit);
    const Visiting visiting(s_, unit, pre_site(type));
    synchronize_device(s_, unit.shared);
    lazy_init(s_, unit.shared);
    if (unit.is_root()) reset_gradient_info_if_needed(unit.shared);
    if (type == StateDictType::local || !unshards(unit)) return;
    const bool full = type == StateDictType::full;
    open(unit,
         std::make_unique<UnshardedUnit>(s_, unit,
                                         SummonOptions{.writeback = false,
                                                       .rank0_only = is_rank0_only(unit),
                                                       .offload_to_cpu = full && offloads(unit)}));
  }

  void after(const Unit& unit) {
    const StateDictType type = type_of(unit);
    const Visiting visiting(s_, unit, post_site(type));
    if (type == StateDictType::local) {
      if (unit.handle) add_flat_parameter(unit);
      return;
    }
    const bool drops = is_rank0_only(unit) && unit.group.rank != 0;
    for (const std::string& name : parameter_names(unit)) {
      StateEntry* entry = find(name);
      if (!entry) continue;
      if (drops)
        dict_.erase(dict_.begin() + (entry - dict_.data()));
      else if (type == StateDictType::full)
        entry->tensor = clone(s_, detach(s_, entry->tensor));
      else
        shard(unit, *entry);
    }
    close(unit);
    if (unit.handle) finish_buffers(unit, drops);
  }

  /// init_from_local_shards tells every rank about every shard.
  void add_flat_parameter(const Unit& unit) {
    const Tensor& flat = unit.handle->flat();
    const std::int64_t padding = piece_of(unit.plan.flat, unit.group.rank).padding_elements;
    const std::int64_t held = flat.numel() - padding;
    Tensor part;
    if (held > 0) part = view(s_, slice(s_, flat, 0, 0, held), {held});
    all_gather_object(s_, unit.group);
    if (offloads(unit) && part) part = to(s_, part, {.device = Device::cpu});
    dict_.push_back({.name = flat_parameter_name(unit),
                     .tensor = part,
                     .sizes = {unit.plan.flat.unpadded_elements},
                     .is_sharded = true});
  }

  /// _create_chunk_sharded_tensor: this rank's rows of the whole.
  void shard(const Unit& unit, StateEntry& entry) {
    const Tensors chunks = chunk(s_, entry.tensor, unit.group.size(), 0);
    const auto rank = static_cast<std::size_t>(unit.group.rank);
    entry.tensor = rank < chunks.size() ? clone(s_, chunks[rank]) : Tensor();
    if (offloads(unit) && entry.tensor)
      entry.tensor = to(s_, entry.tensor, {.device = Device::cpu});
    entry.is_sharded = true;
  }

  /// Buffers go back to their dtype; every unit around one copies it again.
  void finish_buffers(const Unit& unit, bool drops) {
    for (const Shared::Buffer& buffer : unit.shared.buffers) {
      StateEntry* entry = is_inside(unit, buffer.name) ? find(buffer.name) : nullptr;
      if (!entry) continue;
      if (drops) {
        dict_.erase(dict_.begin() + (entry - dict_.data()));
        continue;
      }
      if (offloads(unit)) entry->tensor = to(s_, entry->tensor, {.device = Device::cpu});
      if (!unit.precision.buffers) continue;
      entry->tensor.set_data(
          to(s_, entry->tensor, {.dtype = buffer.dtype, .device = s_.settings.device}));
      entry->tensor = clone(s_, entry->tensor);
    }
  }

  static bool is_inside(const Unit& unit, const std::string& name) {
    return unit.plan.module.empty() || name.starts_with(unit.plan.module + ".");
  }

  StateDictOptions options_;
  StateDict dict_;
};

}  // namespace

std::unordered_set<std::string> frozen_parameters(const FullySharded& model) {
  std::unordered_set<std::string> names;
  for (const auto& unit : model.units()) {
    if (!unit->handle) continue;
    const FlatHandle& handle = *unit->handle;
    const auto& parameters = unit->plan.parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& kept =
          handle.uses_original_parameters() ? handle.parameters()[i] : handle.flat();
      if (!kept.requires_grad()) names.insert(parameters[i].name);
    }
  }
  return names;
}

StateDict state_dict(Session& s, FullySharded& model, const StateDictOptions& options) {
  return Saving(s, model, options).run();
}

}  // namespace shardscope::eager::fsdp1
