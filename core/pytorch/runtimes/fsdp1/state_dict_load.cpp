#include <algorithm>
#include <map>

#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/views.h"
#include "core/pytorch/runtimes/common/collectives.h"
#include "core/pytorch/runtimes/fsdp1/flat_storage.h"
#include "core/pytorch/runtimes/fsdp1/passes.h"
#include "core/pytorch/runtimes/fsdp1/state_dict_walk.h"

namespace shardscope::eager::fsdp1 {
namespace {

Site pre_site(StateDictType type) {
  constexpr Site sites[] = {Site::full_pre_load_state_dict, Site::local_pre_load_state_dict,
                            Site::sharded_pre_load_state_dict};
  return sites[static_cast<std::size_t>(type)];
}

Site post_site(StateDictType type) {
  constexpr Site sites[] = {Site::full_post_load_state_dict, Site::local_post_load_state_dict,
                            Site::sharded_post_load_state_dict};
  return sites[static_cast<std::size_t>(type)];
}

class Loading : private StateDictWalk {
 public:
  Loading(Session& s, FullySharded& model, const StateDict& state, StateDictType type)
      : StateDictWalk(s, model, type), state_(state) {}

  void run() {
    const NoGrad no_grad(s_);
    visit(model_.module(), "");
  }

 private:
  void visit(Module& module, const std::string& name) {
    Unit* unit = model_.unit_of(module);
    if (unit) before(*unit);
    for (std::size_t i = 0; i < module.parameters.size(); ++i)
      if (is_registered(module, i))
        load(joined_name(name, module.parameters[i].name), module.parameters[i].tensor);
    for (const Module::NamedTensor& own : module.buffers)
      if (own.persistent && own.tensor) load(joined_name(name, own.name), own.tensor);
    for (const Module::Child& child : module.children)
      visit(*child.module,
            child.module->name == module.name ? name : joined_name(name, child.name));
    if (unit) after(*unit);
  }

  void load(const std::string& name, const Tensor& into) {
    if (const auto whole = replaced_.find(name); whole != replaced_.end())
      copy_(s_, into, whole->second);
    else if (const StateEntry* entry = find(name); entry && entry->tensor)
      copy_(s_, into, entry->tensor);
  }

  const StateEntry* find(const std::string& name) const {
    const auto entry = std::find_if(state_.begin(), state_.end(),
                                    [&](const StateEntry& e) { return e.name == name; });
    return entry == state_.end() ? nullptr : &*entry;
  }

  void before(Unit& unit) {
    const StateDictType type = type_of(unit);
    check(unit);
    lazy_init(s_, unit.shared);
    synchronize_device(s_, unit.shared);
    const Visiting visiting(s_, unit, pre_site(type));
    lazy_init(s_, unit.shared);
    if (type == StateDictType::local) {
      if (unit.handle) load_flat_parameter(unit);
      return;
    }
    if (type == StateDictType::sharded) {
      if (!unit.handle) return;
      Tensor last_part;  // the hook's variable
      gather(unit, last_part);
      unshard(unit);
    } else if (unshards(unit)) {
      unshard(unit);
    }
  }

  void unshard(Unit& unit) {
    open(unit, std::make_unique<UnshardedUnit>(s_, unit, SummonOptions{.writeback = true}));
  }

  void after(const Unit& unit) {
    const Visiting visiting(s_, unit, post_site(type_of(unit)));
    close(unit);
    for (const std::string& name : parameter_names(unit)) replaced_.erase(name);
    replaced_.erase(flat_parameter_name(unit));
  }

  void load_flat_parameter(const Unit& unit) {
    const StateEntry* entry = find(flat_parameter_name(unit));
    if (!entry || !entry->tensor) return;
    const Tensor& flat = unit.handle->flat();
    const std::int64_t padding = flat.numel() - entry->tensor.numel();
    const Tensor loaded = padding > 0 ? pad_right(s_, entry->tensor, padding) : entry->tensor;
    replaced_[entry->name] = loaded;
    copy_(s_, flat, loaded);
  }

  /// Every parameter is gathered by itself, its rows padded to the same number on every rank.
  void gather(const Unit& unit, Tensor& part) {
    for (const std::string& name : parameter_names(unit)) {
      const StateEntry* entry = find(name);
      if (!entry || !entry->is_sharded) continue;
      replaced_[name] =
          model_.groups().of_mesh ? redistributed(unit, *entry) : gathered(unit, *entry, part);
    }
  }

  Tensor gathered(const Unit& unit, const StateEntry& entry, Tensor& local) {
    const std::int64_t rows = entry.sizes[0], ranks = unit.group.size();
    const std::int64_t elements = (rows + ranks - 1) / ranks * entry.sizes.product() / rows;
    const Dtype dtype = unit.handle->original_dtype();
    const Like kind{dtype, s_.settings.device};
    local.reset();
    if (entry.tensor) {
      local = to(s_, flatten(s_, entry.tensor), {.device = s_.settings.device});
      if (const std::int64_t missing = elements - local.numel(); missing > 0)
        local = pad_right(s_, local, missing);
    } else {
      local = zeros(s_, {elements}, kind);
    }
    const Tensor all = empty(s_, {elements * ranks}, kind);
    all_gather_single(s_, unit.group, all, local);
    return reshape(s_, narrow(s_, all, 0, 0, entry.sizes.product()), entry.sizes);
  }

  /// With a mesh entries are DTensors: redistribute() to replicas of the rows, padded on the way.
  Tensor redistributed(const Unit& unit, const StateEntry& entry) {
    const std::int64_t rows = entry.sizes[0], ranks = unit.group.size();
    Dims padded = entry.sizes;
    padded[0] = (rows + ranks - 1) / ranks;
    Tensor local = entry.tensor;
    if (!local || local.size(0) < padded[0])
      local = new_zeros(s_, local ? local : unit.handle->flat(), padded);
    const Tensor all = functional_all_gather(s_, unit.group, local);
    Tensor whole = all.size(0) > rows ? narrow(s_, all, 0, 0, rows) : all;
    wait_tensor(s_, whole);
    return whole;
  }

  const StateDict& state_;
  /// What hooks put into a unit's own dictionary, which ends with it. Looked up, never walked.
  std::map<std::string, Tensor> replaced_;
};

}  // namespace

void load_state_dict(Session& s, FullySharded& model, const StateDict& state, StateDictType type) {
  Loading(s, model, state, type).run();
}

}  // namespace shardscope::eager::fsdp1
