// What a run does besides training: evaluating, merging an adapter, and what is saved of one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/format/safetensors.h"
#include "core/pytorch/runtimes/training/training_run.h"

namespace shardscope::eager {

/// model.eval() or model.train().
void set_training(Module& root, bool on);

/// A forward with labels without gradients, in evaluation mode: TrainingLoop::evaluated.
Tensor evaluate(Session& s, TrainingRun& run, std::int64_t sequences = 0);

/// The whole state of the run's model as accelerate and DeepSpeed take it, with the state of its
/// quantised layers where the library calls Module.state_dict. Offloaded entries of FSDP are rank
/// 0's alone.
NamedTensors whole_state_dict(Session& s, TrainingRun& run, const FullStateDict& wanted);

/// The same by get_model_state_dict(full_state_dict=True).
NamedTensors full_state_dict(Session& s, TrainingRun& run, const FullStateDict& wanted);

/// What PeftModel.save_pretrained writes of the adapter: names, dtypes and shapes; and an embedding
/// or head whose layer is adapted by name. It asks for the state of the whole model, in which each
/// doubly quantised layer has a copy of its second table.
std::vector<SafetensorsTensor> adapter_tensors(Session& s, TrainingRun& run);

/// The optimizer's state is dropped, then PeftModel.merge_and_unload: each adapter is added to its
/// base layer, which takes its place.
void merge_and_unload(Session& s, TrainingRun& run);

}  // namespace shardscope::eager
