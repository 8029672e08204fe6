// state_dict() and load_state_dict() of a model under FSDP1.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/pytorch/runtimes/fsdp1/fully_sharded.h"

namespace shardscope::eager::fsdp1 {

enum class StateDictType : std::uint8_t { full, local, sharded };

struct StateDictOptions {
  StateDictType type = StateDictType::full;
  bool rank0_only = false;  ///< full only
  bool offload_to_cpu = false;
};

struct StateEntry {
  std::string name;
  Tensor tensor;  ///< of a sharded entry this rank's part; None: it has none
  Dims sizes;     ///< of the whole
  bool is_sharded = false;
};
using StateDict = std::vector<StateEntry>;

/// model.state_dict() under FSDP.state_dict_type(...). Units are visited in module order, and one
/// stays unsharded while those inside it are. Source: torch 2.15, _state_dict_utils.py. Throws
/// Refusal where the library raises.
StateDict state_dict(Session& s, FullySharded& model, const StateDictOptions& options);

/// named_parameters() that do not require grad: of a flat parameter all that were flattened. A tied
/// parameter has the name under which it was flattened.
std::unordered_set<std::string> frozen_parameters(const FullySharded& model);

/// model.load_state_dict(...) of what `state_dict` gave with the same type.
void load_state_dict(Session& s, FullySharded& model, const StateDict& state, StateDictType type);

}  // namespace shardscope::eager::fsdp1
