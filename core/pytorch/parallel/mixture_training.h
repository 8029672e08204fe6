// Training iterations of torchtitan's mixtures of experts under FSDP2 and expert parallelism, as
// one rank runs them. Source: torchtitan 0.3.0, trainer.py, distributed/fsdp.py,
// distributed/activation_checkpoint.py, components/optimizer/optimizer.py.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/pytorch/parallel/chunked_loss.h"
#include "core/pytorch/parallel/device_mesh.h"
#include "core/pytorch/parallel/mixture.h"
#include "core/pytorch/parallel/pipeline.h"
#include "core/pytorch/runtimes/common/functional.h"
#include "core/pytorch/runtimes/common/optimizer.h"
#include "core/pytorch/runtimes/training/training_loop.h"

namespace shardscope::eager::parallel {

/// FlexAttention's blocks of queries and of keys, in tokens. Source: torch 2.15, flex_attention.py
/// (_DEFAULT_SPARSE_BLOCK_SIZE).
inline constexpr int flex_attention_block = 128;

enum class MixtureCheckpoint : std::uint8_t { none, full, selective };

struct MixtureSettings {
  MixtureShape shape;
  std::vector<MeshAxis> mesh;  ///< pp, dp_replicate, dp_shard, cp, tp
  /// Of an axis pp; the layers of each of its stages, empty: equally many.
  PipelineScheduleKind schedule = PipelineScheduleKind::one_f_one_b;
  int stages_per_rank = 1;
  std::vector<std::int64_t> stage_layers = {};
  int expert_ranks = 1;     ///< of dp_shard, cp and tp, the neighbours
  double load = 1;          ///< tokens that this rank's experts get, by the average
  std::int64_t batch = 1;   ///< sequences of a rank's micro-batch
  std::int64_t length = 1;  ///< tokens of a sequence, all of them
  int micro_batches = 1;
  Dtype dtype = Dtype::float32;  ///< of the parameters
  fsdp2::MixedPrecisionPolicy mixed_precision;
  bool reshard_after_forward = true;
  bool shards = true;  ///< by FSDP2; else each rank has the parameters that it computes with
  MixtureCheckpoint checkpoint = MixtureCheckpoint::none;
  Float8Recipe float8 = Float8Recipe::none;  ///< of linear layers; experts stay as they are
  OptimizerSettings optimizer;
  bool clips = false;
};

class MixtureTraining {
 public:
  /// `micro_batch` counts from 0.
  using Probe = std::function<void(Moment moment, int micro_batch)>;

  /// `groups` must outlive it.
  MixtureTraining(Session& s, ProcessGroups& groups, const MixtureSettings& settings);
  MixtureTraining(const MixtureTraining&) = delete;
  MixtureTraining& operator=(const MixtureTraining&) = delete;

  /// `watch` is told of the stage's forwards and backwards, with an axis pp.
  void iteration(const Probe& probe, const StageWatcher& watch = {});

  /// Of the stages of this rank together.
  Module& module() { return *model_; }
  const MixtureSettings& settings() const { return settings_; }
  const DeviceMesh& mesh() const { return mesh_; }
  /// pp, dp_replicate, efsdp and ep.
  const DeviceMesh& expert_mesh() const { return expert_mesh_; }
  Tensors parameters();
  Tensors optimizer_states() const;

 private:
  /// Of a micro-batch, one number a token.
  struct StepInputs {
    Tensor ids, positions, labels;
  };
  /// A model, or a stage of one.
  struct Part {
    int stage = 0;
    std::shared_ptr<Module> model;
    std::unique_ptr<fsdp2::FullySharded> sharded;
  };

  bool has_expert_ranks() const { return settings_.expert_ranks > 1; }
  bool has_stages() const { return mesh_.size("pp") > 1; }
  PipelineSetup pipeline_setup() const;
  std::shared_ptr<Module> make_part(const LlamaPart& part);
  void make_parts();
  void parallelize(Part& part, ProcessGroups& groups);
  static void tie_head(Module& model);
  void make_pipeline();
  std::vector<Module*> blocks() const;
  const ProcessGroup* group_with_replicas(const char* inner);
  const ProcessGroup* tensor_ranks() const;
  const ProcessGroup* context_ranks() const;
  fsdp2::GradientRule summed_over_tensor_ranks();
  /// The group of an axis, and the group of replicas if there are several.
  fsdp2::MeshInfoRef mesh_info(const DeviceMesh& mesh, const ProcessGroup& shard) const;
  void apply_checkpointing(Module& model);
  void apply_fully_shard(Part& part);
  void prefetch_explicitly(Part& part);

  bool splits_sequences() const { return mesh_.size("cp") > 1; }
  std::int64_t own_length() const { return settings_.length / mesh_.size("cp"); }
  /// Of whole sequences, and of GPT-OSS's window.
  int masks() const { return settings_.shape.window > 0 ? 2 : 1; }
  Tensor integers_on_device();
  void make_block_lists(const Tensor& positions, std::int64_t queries);
  void make_mask(const Tensor& positions);
  Tensor head_and_tail_order(const Tensor& positions);
  Tensor own_tokens(const Tensor& all, const Tensor& order);
  StepInputs prepared(const StepInputs& all);
  Tensor loss_of(Part& part, Tensor hidden, const LossInputs& inputs);
  void micro_batch(int number, const Tensor& labels_of_all, const Probe& probe);
  void pipeline_step(const StageWatcher& watch);
  Tensor count_of_all_labels();
  using Groups = std::vector<const ProcessGroup*>;
  Groups groups_of_shards() const;
  Groups groups_of_experts() const;
  Tensor summed_norm(const Tensors& gradients, const Groups& groups);
  Tensor over_stages(Tensor norm);
  void clip();
  void balance_load();
  void shorten_timeouts();

  Session& s_;
  MixtureSettings settings_;
  DeviceMesh mesh_, expert_mesh_;
  const ProcessGroup& world_;
  const ProcessGroup* shard_group_;  ///< over which FSDP2 shards: dp_shard and cp
  const ProcessGroup* data_group_;   ///< of all ranks with sequences of their own; null: one
  const ProcessGroup* token_group_;  ///< of all ranks with tokens of their own; null: one
  std::shared_ptr<Module> model_;
  std::vector<Part> parts_;  ///< several: the stages of this rank
  std::unique_ptr<PipelineRun> pipeline_;
  fsdp2::MeshInfoRef dense_info_, expert_info_;
  Pending pending_;
  std::unique_ptr<ParameterOptimizer> optimizer_;
  /// Ids and positions of all micro-batches of a step, labels and loss of the last one; of stages
  /// all labels. Of whole sequences.
  Tensors batches_, targets_;
  std::vector<StepInputs> of_stages_;  ///< the rank's tokens of each micro-batch
  Tensor labels_, loss_, labels_of_all_;
  Tensors mask_;
  Tensors constants_;  ///< made once, and kept
  bool is_first_step_ = true;
};

}  // namespace shardscope::eager::parallel
