// Training iterations of torchtitan's Llama under tensor, context, expert and data parallelism, on
// the eager engine, as one rank runs them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/pytorch/engine/checkpoint.h"
#include "core/pytorch/parallel/device_mesh.h"
#include "core/pytorch/parallel/llama.h"
#include "core/pytorch/parallel/mixture_training.h"
#include "core/pytorch/parallel/moe.h"
#include "core/pytorch/parallel/pipeline.h"
#include "core/pytorch/parallel/ring_attention.h"
#include "core/pytorch/runtimes/common/float8.h"
#include "core/pytorch/runtimes/common/optimizer.h"
#include "core/pytorch/runtimes/fsdp2/fully_shard.h"
#include "core/pytorch/runtimes/tensor/tensor_parallel.h"
#include "core/pytorch/runtimes/training/float8_layers.h"
#include "core/pytorch/runtimes/training/training_loop.h"

namespace shardscope::eager::parallel {

enum class EmbeddingStyle : std::uint8_t { rowwise, colwise };

struct ParallelSettings {
  LlamaShape shape;
  /// A Llama of transformers in the place of torchtitan's, made on the meta device, and
  /// parallelized by its own tp_plan.
  std::function<std::shared_ptr<Module>(Session& meta)> transformers_model = {};
  std::vector<TensorRule> transformers_plan = {};
  /// From the outermost to the innermost: pp, dp_replicate, dp_shard, cp, tp. Experts have a mesh
  /// of their own over the same ranks. FSDP2 shards over dp_shard, and over cp with it; without
  /// dp_shard nothing is sharded by data, and stages of an axis pp are in DDP over dp_replicate.
  std::vector<MeshAxis> mesh;
  std::int64_t batch = 1;        ///< sequences of a rank
  std::int64_t length = 1;       ///< tokens of a sequence, all of them
  Dtype dtype = Dtype::float32;  ///< of the parameters
  fsdp2::MixedPrecisionPolicy mixed_precision;
  bool sequence_parallel = false;
  bool loss_parallel = false;
  EmbeddingStyle embedding = EmbeddingStyle::rowwise;
  /// k: blocks k, 2k, ..., counted from 1; 0: none. Source: torchtitan 01db32e,
  /// distributed/activation_checkpoint.py, _apply_layer_sac.
  int checkpoint_every = 0;
  CheckpointOptions checkpoint{.preserve_rng_state = false};
  bool reshard_after_forward = true;
  RingSettings ring;  ///< of an axis cp
  ExpertSettings experts;
  Float8Settings float8;  ///< of all linear layers except output
  /// Float8ColwiseParallel and its like, of tensorwise: what ranks gather from each other between
  /// layers is cast before.
  bool float8_tensor_parallel = false;
  OptimizerSettings optimizer;
  bool clips = false;
  /// Of a step: the gradients of each are reduced, or with pp those of all at once.
  int micro_batches = 1;
  /// Of an axis pp, whose `batch` is that of all micro-batches.
  PipelineScheduleKind schedule = PipelineScheduleKind::gpipe;
  int stages_per_rank = 1;
  std::vector<std::int64_t> stage_layers = {};  ///< of each stage; empty: equally many
  /// A mixture of experts in the place of all that is said of a Llama.
  std::optional<MixtureSettings> mixture = {};
};

/// The pipeline of an axis pp.
PipelineSetup pipeline_setup_of(const ParallelSettings& settings);

/// The model and all that trains it.
class ParallelTraining {
 public:
  /// `micro_batch` counts from 0.
  using Probe = std::function<void(Moment moment, int micro_batch)>;

  /// `groups` must outlive it.
  ParallelTraining(Session& s, ProcessGroups& groups, const ParallelSettings& settings);
  ParallelTraining(const ParallelTraining&) = delete;
  ParallelTraining& operator=(const ParallelTraining&) = delete;

  /// `watch` is told of the stage's forwards and backwards, with an axis pp.
  void iteration(const Probe& probe, const StageWatcher& watch = {});

  /// Of the stages of this rank together.
  Module& module() { return *model_; }
  const ParallelSettings& settings() const { return settings_; }
  const DeviceMesh& mesh() const { return mesh_; }
  /// ep_shard and ep; null: no experts.
  const DeviceMesh* expert_mesh() const { return expert_mesh_.get(); }
  Tensors parameters();
  Tensors optimizer_states() const;
  /// Token ids and labels.
  Tensors inputs() const { return {ids_, labels_}; }
  /// The group that FSDP2 shards over; null: it shards nothing.
  const ProcessGroup* shard_group() const { return fsdp_mesh_ ? fsdp_mesh_->shard : nullptr; }

 private:
  /// A model, or a stage of one, with the data parallelism around it.
  struct Part {
    int stage = 0;
    std::shared_ptr<Module> model;
    std::unique_ptr<fsdp2::FullySharded> sharded;
    std::unique_ptr<ddp::DistributedDataParallel> replicated;
  };

  void make_model();
  std::shared_ptr<Module> make_part(const LlamaPart& part);
  void make_parts();
  void parallelize(Part& part, ProcessGroups& groups);
  void apply_transformers_plan(Module& module);
  Tensor logits_of(const Tensor& ids);
  void apply_tensor_parallel(Module& model);
  void apply_checkpointing(Module& model);
  void apply_fully_shard(Part& part);
  void apply_ddp(Part& part);
  bool is_sharded() const { return parts_.front().sharded != nullptr; }
  void parallelize_embedding(Module& embedding, Placement activations);
  void parallelize_output(Module& norm, Module& output, Placement activations);
  void parallelize_block(Module& block);
  void shard_experts(Part& part, Module& block, fsdp2::Options& options);
  void note_layout(const Module& module, ParameterLayout layout);
  const ParameterLayout* layout_of(const Tensor& parameter) const;
  void make_pipeline();
  void pipeline_step(const Tensors& batch, const StageWatcher& watch);
  void update(const Probe& probe);
  void micro_batch(int number, const Tensors& batch, const Probe& probe);
  Tensor loss_of(const Tensor& logits, const Tensor& labels);
  Tensor summed_norms(const Tensor& norms, const MeshAxisContext& axis);
  void clip();

  Session& s_;
  ParallelSettings settings_;
  DeviceMesh mesh_;
  Pending pending_;
  std::unique_ptr<DeviceMesh> expert_mesh_;
  MeshAxisContext tensor_axis_, context_axis_, expert_axis_, shard_axis_;
  std::unique_ptr<Session> maker_;  ///< of what is made on the meta device
  std::shared_ptr<Module> model_;
  std::map<const TensorImpl*, ParameterLayout> layouts_;  // looked up, never walked
  std::unique_ptr<TensorParallel> divided_;
  std::unique_ptr<Float8Layers> float8_;
  std::set<const TensorImpl*> ignored_;  // by FSDP2; looked up, never walked
  std::vector<Part> parts_;              ///< several: the stages of this rank
  fsdp2::MeshInfoRef fsdp_mesh_, expert_fsdp_mesh_;
  std::unique_ptr<ParameterOptimizer> optimizer_;
  std::unique_ptr<PipelineRun> pipeline_;
  Tensors targets_;  ///< labels of the micro-batches of a pipeline's step
  Tensor ids_, labels_;
};

}  // namespace shardscope::eager::parallel
