// FullyShardedDataParallel.summon_full_params, and what state dicts share with it.
#pragma once

#include <memory>
#include <vector>

#include "core/pytorch/runtimes/fsdp1/fully_sharded.h"

namespace shardscope::eager::fsdp1 {

/// The arguments of summon_full_params.
struct SummonOptions {
  bool recurse = true;
  bool writeback = true;
  bool rank0_only = false;
  bool offload_to_cpu = false;
  bool with_gradients = false;
};

/// One unit's parameters in full and in full precision. Source: torch 2.15,
/// _unshard_param_utils.py, _unshard_fsdp_state_params.
class UnshardedUnit {
 public:
  /// Throws Refusal where the library raises.
  UnshardedUnit(Session& s, Unit& unit, const SummonOptions& options);
  UnshardedUnit(const UnshardedUnit&) = delete;
  UnshardedUnit& operator=(const UnshardedUnit&) = delete;
  /// The context is left. It is not done by the destructor, which would run operators.
  void leave(Session& s);

  /// Whether the modules hold full parameters now.
  bool has_parameters() const { return handle_ && !resharded_at_once_; }

 private:
  void enter(Session& s);
  void reshard_unit(Session& s);

  Unit& unit_;
  SummonOptions options_;
  FlatHandle* handle_ = nullptr;
  bool frees_ = false;
  bool resharded_at_once_ = false;  ///< of other ranks than the first, where only that one looks
};

/// `with FSDP.summon_full_params(model)`: all units, or the root alone.
class SummonedParameters {
 public:
  SummonedParameters(Session& s, FullySharded& model, const SummonOptions& options);
  void leave(Session& s);

 private:
  std::vector<std::unique_ptr<UnshardedUnit>> units_;
};

}  // namespace shardscope::eager::fsdp1
