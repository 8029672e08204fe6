// FSDP1 over a chain of linear blocks, and what it issues in short.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/pytorch/runtimes/common/process_group.h"
#include "core/pytorch/runtimes/fsdp1/fully_sharded.h"

namespace shardscope::eager {

/// What is issued, in short: "AG:L1", "RS:R", "wait:L2" (until L2 was freed), "free:L1".
class Sequence : public Observer, public fsdp1::Watcher {
 public:
  using Names = std::vector<std::string>;

  Names rows;
  std::vector<std::int64_t> reduced_elements;
  std::vector<Dtype> gathered_dtypes;

  void on_enter(Session&, const fsdp1::Visit& visit) override;
  void on_leave(Session&, const fsdp1::Visit&) override;
  void on_limiter_enqueue(Session&, EventId event, std::size_t) override;
  void on_host_wait(Session&, EventId event) override { rows.push_back("wait:" + freed_[event]); }
  void on_collective(Session&, const CollectiveCall& call) override;

  /// Those rows that begin so.
  Names of(const std::string& prefix) const;
  /// Those of gathers and reductions.
  Names collectives() const;

 private:
  std::vector<const fsdp1::Unit*> units_;
  std::vector<bool> sites_;
  std::map<EventId, std::string> freed_;
};

/// The largest storage that there was.
class LargestStorage : public Observer {
 public:
  std::int64_t largest = 0;

  void on_storage_allocated(Session&, StorageImpl& storage) override { add(storage.bytes()); }
  void on_storage_resized(Session&, StorageImpl& storage, Bytes) override { add(storage.bytes()); }

 private:
  void add(Bytes bytes) { largest = std::max(largest, bytes.count); }
};

/// Blocks layers.1 .. layers.n of `width` inputs and outputs, each a unit, and a root with a head
/// of the same kind.
class Chain {
 public:
  struct Settings {
    int blocks = 4;
    int world = 2;
    std::int64_t width = 4;
    ShardingStrategy strategy = ShardingStrategy::full_shard;
    fsdp1::Options options = {};
    /// Puts checkpoints around what is wrapped of each block.
    std::function<std::shared_ptr<Module>(std::shared_ptr<Module>)> around = {};
  };

  explicit Chain(const Settings& settings);

  Tensor forward();
  void iteration();

  Session s{{.device = Device::cpu, .watched = true}};
  ProcessGroups groups;
  Sequence sequence;
  LargestStorage storages;
  std::unique_ptr<fsdp1::FullySharded> model;

 private:
  ModuleTree tree(int blocks) const;
  fsdp1::Groups groups_of(const Settings& settings);

  std::int64_t width_;
};

}  // namespace shardscope::eager
