// FullyShardedDataParallel's constructor on a graph of modules, on one rank.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/pytorch/plans/fsdp1.h"
#include "core/pytorch/plans/fsdp1_policy.h"
#include "core/pytorch/plans/module_graph.h"

namespace shardscope {

class Fsdp1Construction {
 public:
  /// `settings` and `tree` must outlive it.
  Fsdp1Construction(const ModuleTree& tree, const Fsdp1Settings& settings, int rank);

  /// Wraps by hand, then the root.
  Fsdp1Plan run();

 private:
  /// What may differ from one constructor call to the next.
  struct Arguments {
    ShardingStrategy strategy;
    bool use_original_parameters;
    std::optional<MixedPrecision> mixed_precision;
    bool chosen_by_policy = false;  ///< the root's call makes it
  };
  /// Over which ranks a unit shards.
  struct Group {
    int ranks;
    int stride;
  };

  void wrap_by_hand(const std::string& name);
  NodeId construct(NodeId module, const Arguments& arguments, const AutoWrap* policy);
  Group group_of(const Arguments& arguments, bool has_policy) const;
  Group group_within_node() const;

  void auto_wrap(const AutoWrap& policy);
  void refuse_nested_wrapping();
  void leave_out_batch_norm();
  void wrap_chosen(const AutoWrap& policy);
  std::map<NodeId, Arguments> chosen_modules(const AutoWrap& policy);
  void check_frozen(const std::map<NodeId, Arguments>& chosen);
  void wrap_post_order(NodeId module, const std::map<NodeId, Arguments>& chosen,
                       std::set<NodeId>& visited);
  std::int64_t wrap_children(NodeId module, const WrapPolicyFunction& policy);
  std::pair<NodeId, std::int64_t> wrap_recursively(NodeId module, const WrapPolicyFunction& policy);
  std::int64_t countable_elements(NodeId module);

  void flatten(NodeId module, const std::vector<HeldParameterId>& managed,
               const Arguments& arguments, Fsdp1Unit& unit);
  std::vector<HeldParameterId> managed_parameters(NodeId module);
  void set_dtypes(const std::vector<HeldParameterId>& managed, const Arguments& arguments,
                  Fsdp1Unit& unit) const;
  std::vector<std::pair<NodeId, HeldParameterId>> name_parameters(
      NodeId module, const std::vector<HeldParameterId>& managed, Fsdp1Unit& unit);
  void hide_parameters(NodeId module, const std::vector<std::pair<NodeId, HeldParameterId>>& slots,
                       const Fsdp1Unit& unit);
  void shard_parameters(const Fsdp1Unit& unit);

  const TreeParameter& source_of(HeldParameterId id) const;
  bool is_ignored(NodeId module) const { return ignored_modules_.contains(module); }
  bool is_ignored(HeldParameterId id) const { return ignored_parameters_.contains(id); }
  Arguments root_arguments() const;
  void warn(Fsdp1Warning::Kind kind, std::string subject);

  const Fsdp1Settings& settings_;
  int rank_;
  ModuleGraph graph_;
  std::set<NodeId> ignored_modules_;
  std::set<HeldParameterId> ignored_parameters_;
  bool batch_norm_in_full_ = false;    ///< BatchNorms carry _wrap_overrides
  std::map<NodeId, Fsdp1Unit> units_;  ///< by wrapper
  Fsdp1Plan plan_;
};

}  // namespace shardscope
