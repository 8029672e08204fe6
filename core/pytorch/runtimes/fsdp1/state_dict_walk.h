// What saving and loading a state dict have in common.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/pytorch/runtimes/fsdp1/state_dict.h"
#include "core/pytorch/runtimes/fsdp1/summon.h"

namespace shardscope::eager::fsdp1 {

/// A walk over the model, unit by unit, with the contexts that are open.
class StateDictWalk {
 public:
  StateDictWalk(Session& s, FullySharded& model, StateDictType type);

 protected:
  /// Units that do not shard are saved and loaded in full, whatever is asked for.
  StateDictType type_of(const Unit& unit) const;
  /// _should_unshard_params.
  static bool unshards(const Unit& unit);
  /// Refusal of what a type does not go with.
  void check(const Unit& unit) const;
  /// Whether a module's own parameter is a registered one now, not a mere view.
  bool is_registered(const Module& module, std::size_t parameter) const;
  void open(const Unit& unit, std::unique_ptr<UnshardedUnit> context);
  void close(const Unit& unit);

  Session& s_;
  FullySharded& model_;
  StateDictType type_;

 private:
  // Looked up, never walked.
  std::map<std::pair<const Module*, std::size_t>, const Unit*> unit_of_parameter_;
  std::map<const Unit*, std::unique_ptr<UnshardedUnit>> contexts_;
};

/// Full names of a unit's parameters, tied ones too, in the order in which hooks go through them.
std::vector<std::string> parameter_names(const Unit& unit);
/// The name under which a unit's flat parameter stands in a local state dict.
std::string flat_parameter_name(const Unit& unit);
std::string joined_name(const std::string& prefix, const std::string& own);

}  // namespace shardscope::eager::fsdp1
