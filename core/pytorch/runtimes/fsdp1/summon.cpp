#include "core/pytorch/runtimes/fsdp1/summon.h"

#include "core/base/refusal.h"
#include "core/pytorch/runtimes/fsdp1/passes.h"

namespace shardscope::eager::fsdp1 {
namespace {

/// _validate_unshard_params_args.
void check(const Unit& unit, const SummonOptions& options) {
  const auto refuse = [](const char* what) { throw Refusal("NotImplementedError", what); };
  const bool original = unit.shared.options.use_original_parameters;
  if (options.with_gradients && (options.offload_to_cpu || !original))
    refuse("with_grads needs use_orig_params and no offload_to_cpu");
  if (options.offload_to_cpu && unit.handle && !unit.handle->is_sharded_strategy())
    refuse("offload_to_cpu does not go with NO_SHARD");
  if (options.writeback && options.rank0_only) refuse("writeback does not go with rank0_only");
}

}  // namespace

UnshardedUnit::UnshardedUnit(Session& s, Unit& unit, const SummonOptions& options)
    : unit_(unit), options_(options) {
  check(unit, options);
  synchronize_device(s, unit.shared);
  FlatHandle* handle = unit.handle.get();
  if (!handle || handle->progress.state == HandleState::summon) return;
  handle_ = handle;
  enter(s);
}

void UnshardedUnit::enter(Session& s) {
  handle_->progress.state = HandleState::summon;
  handle_->reset_gradient_info_if_needed();
  frees_ = handle_->needs_unshard();
  unshard(s, unit_, s.stream, s.stream);
  if (options_.with_gradients) handle_->unshard_gradient(s);
  resharded_at_once_ = options_.rank0_only && unit_.group.rank != 0;
  if (resharded_at_once_) {
    reshard_unit(s);
    return;
  }
  if (options_.offload_to_cpu && handle_->is_sharded_strategy()) handle_->offload_to_cpu(s);
  if (!handle_->uses_original_parameters()) handle_->use_unsharded_views(s, true);
}

void UnshardedUnit::reshard_unit(Session& s) {
  reshard(s, unit_, frees_);
  if (options_.with_gradients) handle_->reshard_gradient(s);
}

void UnshardedUnit::leave(Session& s) {
  if (!handle_) return;
  if (!resharded_at_once_) {
    if (!handle_->uses_original_parameters()) handle_->use_unsharded_views(s, false);
    if (options_.offload_to_cpu && handle_->is_sharded_strategy()) handle_->restore_from_cpu(s);
    if (options_.writeback) handle_->write_back_to_local_shard(s, options_.with_gradients);
    reshard_unit(s);
  }
  handle_->progress.state = HandleState::idle;
}

SummonedParameters::SummonedParameters(Session& s, FullySharded& model,
                                       const SummonOptions& options) {
  for (const auto& unit : model.units()) {
    check(*unit, options);
    lazy_init(s, model.shared());
    units_.push_back(std::make_unique<UnshardedUnit>(s, *unit, options));
    if (!options.recurse) return;
  }
}

void SummonedParameters::leave(Session& s) {
  for (; !units_.empty(); units_.pop_back()) units_.back()->leave(s);
}

}  // namespace shardscope::eager::fsdp1
