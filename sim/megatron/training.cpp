#include "sim/megatron/training.h"

#include <algorithm>
#include <utility>

#include "core/pytorch/runtimes/training/requested_setup.h"
#include "sim/kernels/device_efficiency.h"
#include "sim/megatron/divided_parts.h"

namespace shardscope {
namespace {

using megatron::Attention;
using megatron::Recompute;
using megatron::Settings;

constexpr std::int64_t bytes_of_activation_element = 2;

/// Puts together what the parts of the simulator are told.
class TrainingBuilder {
 public:
  TrainingBuilder(const Settings& settings, const HardwareProfile& profile)
      : TrainingBuilder(settings, shape_of_rank(settings), profile) {}

  DividedTraining build() {
    result_.world = s_.data_context();
    result_.micro_batches = static_cast<double>(s_.micro_batches());
    result_.tokens_per_step = s_.sequences() * s_.shape.seq;
    set_pipeline();
    set_tensor_parts();
    set_expert_parts();
    set_update();
    set_runtime();
    set_loop();
    set_kernels();
    set_checkpointing();
    return std::move(result_);
  }

 private:
  TrainingBuilder(const Settings& settings, const DecoderShape& shape,
                  const HardwareProfile& profile)
      : TrainingBuilder(settings, shape, profile,
                        model_of_shape(shape, settings.hidden_dropout, settings.tied)) {}
  TrainingBuilder(const Settings& settings, const DecoderShape& shape,
                  const HardwareProfile& profile, const ShapedModel& model)
      : s_(settings), shape_(shape), result_{.model = model, .played = model} {
    result_.profile = profile;
  }

  static DecoderShape shape_of_rank(const Settings& settings) {
    DecoderShape shape = settings.shape;
    shape.vocabulary = settings.padded_vocabulary();
    shape.seq /= settings.context;
    return shape;
  }

  bool zero1() const { return s_.distributed_optimizer; }
  /// Where reductions do not overlap, or experts have groups of their own, the update is weighed
  /// apart from what is played.
  bool updates_apart() const { return !zero1() || !s_.overlaps_gradients || s_.expert > 1; }

  void set_pipeline() {
    if (s_.pipeline == 1 && !updates_apart()) return;
    MegatronPipeline pipeline{.ranks = s_.pipeline, .stages_per_rank = s_.stages_per_rank};
    pipeline.layers = s_.stage_layers();
    pipeline.played_layers = std::max(1, *std::ranges::max_element(pipeline.layers));
    pipeline.activation =
        Bytes{s_.micro_batch * shape_.seq * shape_.hidden * bytes_of_activation_element};
    if (s_.tied)
      pipeline.shared_gradient =
          Bytes{shape_.vocabulary * shape_.hidden * bytes_of_activation_element / s_.tensor};
    pipeline.rank_distance = s_.world / s_.pipeline;
    result_.pipeline = std::move(pipeline);
    result_.played = model_of_shape(played_shape(), s_.hidden_dropout, s_.tied);
  }

  DecoderShape played_shape() const {
    return with_layers(shape_, result_.pipeline ? result_.pipeline->played_layers : shape_.layers);
  }

  void set_tensor_parts() {
    if (s_.tensor == 1) return;
    result_.played = tensor_part(played_shape(), s_.tensor, s_.hidden_dropout, s_.tied);
    result_.tensor = {.ranks = s_.tensor,
                      .tokens = s_.micro_batch * shape_.seq,
                      .hidden = shape_.hidden,
                      .divides_sequence = s_.sequence_parallel,
                      .overlaps = s_.overlaps_tensor};
  }

  void set_expert_parts() {
    const ExpertShape& experts = shape_.experts;
    if (experts.experts == 0) return;
    result_.played = expert_part(played_shape(), s_.expert, s_.hidden_dropout, s_.tied);
    result_.experts = {.ranks = s_.expert,
                       .rows = s_.micro_batch * shape_.seq * experts.chosen,
                       .hidden = shape_.hidden,
                       .counts_tokens = !s_.pads_experts};
    result_.assumed.emplace_back("experts get equal shares of the tokens");
  }

  void set_update() {
    shards_ = zero1() ? result_.world : 1;
    if (!updates_apart()) return;
    result_.update = update_apart(result_, shape_.experts, shards_, s_.gradients);
    shards_ = 1;
  }

  void set_runtime() {
    result_.runtime = Runtime::deepspeed;
    const TrainingPrecision precision =
        s_.parameters == Dtype::float32
            ? TrainingPrecision::fp32
            : (s_.parameters == Dtype::float16 ? TrainingPrecision::fp16_mixed
                                               : TrainingPrecision::bf16_mixed);
    result_.setup = eager::requested_setup(
        result_.played.model,
        {.runtime = result_.runtime,
         .sharding = ShardingStrategy::zero1,
         .precision = precision,
         .world = shards_,
         .ranks_per_node = std::min(shards_, result_.profile.ranks_per_node)});
    auto& zero = std::get<eager::DeepSpeedSetup>(result_.setup.runtime);
    zero.settings.overlap_comm = s_.overlaps_gradients;
    zero.settings.multi_rank_all_reduce = true;
    zero.settings.accumulation_dtype = s_.gradients;
  }

  void set_loop() {
    eager::TrainingSettings& loop = result_.setup.loop;
    loop.batch = s_.micro_batch;
    loop.length = shape_.seq;
    loop.syncs_once = true;
    loop.loss = eager::LossPlace::after_model;
    loop.clips = true;
    loop.optimizer.implementation = eager::OptimizerImplementation::fused;
  }

  void set_kernels() {
    eager::TrainingSetup& setup = result_.setup;
    const int capability = result_.profile.compute_capability;
    constexpr int hopper = 90;
    result_.kernels = {.fusion = KernelFusion::by_hand, .attention = {}};
    // Source: transformer_engine/pytorch/attention/dot_product_attention/utils.py
    // (get_attention_backend): cuDNN's from Hopper on, else FlashAttention-2.
    if (s_.attention == Attention::engine && capability >= hopper)
      result_.kernels.attention = AttentionLibrary::cudnn;
    if (s_.float8 != megatron::Float8::none)
      result_.float8.casts =
          s_.float8 == megatron::Float8::delayed ? Float8Casts::delayed : Float8Casts::current;
    result_.float8.precise_sums = efficiency_of(capability).matmul.precise_sums;
    result_.ring = {.ranks = s_.context, .distance = s_.tensor, .waits = false};
    if (s_.context > 1)
      result_.assumed.emplace_back("ring attention's exchange runs behind attention");
    setup.session.compute_capability = capability;
    setup.session.attention.cudnn = false;
    setup.model.dropout = s_.hidden_dropout > 0;
    if (s_.attention == Attention::unfused) attend_by_products(result_, s_.shape.heads / s_.tensor);
  }

  void set_checkpointing() {
    const auto choice =
        eager::parse_checkpoint_choice(megatron::name_of(s_.recompute), "recompute_granularity");
    eager::TrainingSetup& setup = result_.setup;
    setup.checkpointing = eager::checkpointing_of(result_.played.model, choice);
    setup.checkpointing.options.reentrant = !choice.selective;
    if (choice.selective) setup.checkpointing.options.saves = eager::all_but_core_attention();
  }

  const Settings& s_;
  DecoderShape shape_;  ///< of one context rank, with the filled vocabulary
  int shards_ = 1;
  DividedTraining result_;
};

}  // namespace

DividedTraining megatron_training(const Settings& settings, const HardwareProfile& profile) {
  return TrainingBuilder(settings, profile).build();
}

}  // namespace shardscope
