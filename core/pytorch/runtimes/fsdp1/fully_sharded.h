// FSDP1: FullyShardedDataParallel around a model and its units, and the methods of the root.
#pragma once

#include <memory>
#include <vector>

#include "core/pytorch/runtimes/fsdp1/flat_handle.h"
#include "core/pytorch/runtimes/fsdp1/unit.h"

namespace shardscope::eager::fsdp1 {

/// Which communicators the units use.
struct Groups {
  const ProcessGroup* world = nullptr;     ///< the default group
  const ProcessGroup* all = nullptr;       ///< over which strategies shard that are not hybrid
  const ProcessGroup* shard = nullptr;     ///< of hybrid ones
  const ProcessGroup* replicas = nullptr;  ///< of hybrid ones
  bool of_mesh = false;                    ///< device_mesh was given
};

/// The wrapped model. It must outlive the model's forwards and backwards.
class FullySharded {
 public:
  struct Input {
    std::shared_ptr<Module> module;
    Fsdp1Plan plan;  ///< of this rank
    Options options;
    Groups groups;
    std::vector<Watcher*> watchers = {};  ///< not owned
  };
  FullySharded(Session& s, Input input);
  ~FullySharded();
  FullySharded(const FullySharded&) = delete;
  FullySharded& operator=(const FullySharded&) = delete;

  /// The root's wrapper: call it.
  Module& module() const { return *root_; }
  Shared& shared() { return shared_; }
  const Groups& groups() const { return groups_; }
  const std::vector<std::unique_ptr<Unit>>& units() const { return units_; }
  /// Null: the module is no wrapper of this.
  Unit* unit_of(const Module& wrapper) const;

  /// Whether any unit's strategy shards.
  bool has_sharded_units() const;
  /// Root.parameters(): what an optimizer is given.
  Tensors parameters() const;

  /// `with no_sync():` begins, and ends.
  void begin_no_sync(Session& s);
  void end_no_sync();

 private:
  /// Where a unit's module hangs.
  struct Slot {
    std::shared_ptr<Module>* module;
    std::vector<ParameterPlace> places = {};
    std::vector<FlatHandle::Alias> aliases = {};
  };

  void set_sync_gradients(bool on);
  Precision precision_of(const Fsdp1Unit& unit, Dtype original) const;
  void wrap(Session& s, Unit& unit, Slot& slot);
  void make_handle(Session& s, Unit& unit, Slot& slot);

  Fsdp1Plan plan_;
  Groups groups_;
  Shared shared_;
  std::shared_ptr<Module> root_;
  std::vector<std::unique_ptr<Unit>> units_;
};

}  // namespace shardscope::eager::fsdp1
