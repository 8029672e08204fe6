#include "sim/validate/published_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/pytorch/runtimes/training/requested_setup.h"
#include "sim/kernels/device_efficiency.h"
#include "sim/megatron/divided_parts.h"
#include "sim/megatron/pipeline.h"
#include "sim/validate/published_machine.h"
#include "sim/validate/published_pipeline.h"
#include "sim/validate/published_stack.h"
#include "sim/validate/published_words.h"

namespace shardscope {
namespace {

std::int64_t tensor_ranks(const PublishedRow& row) { return row.tensor_parallel.value_or(1); }

/// GPUs that share a sequence.
std::int64_t context_ranks(const PublishedRow& row) {
  const auto stated = number_after(row.strategy, "CP");
  return std::max(1, stated ? *stated : number_after(row.strategy, "CP ").value_or(1));
}

/// GPUs that have the same part of the model, and other data or another part of a sequence.
std::int64_t data_parallel_ranks(const PublishedRow& row) {
  const std::int64_t parts = tensor_ranks(row) * row.pipeline_parallel.value_or(1);
  return std::max<std::int64_t>(1, row.gpus.value_or(1) / parts);
}

/// Sequences of a rank's step and of its micro-batches.
struct Batches {
  std::int64_t of_step = 0;
  std::int64_t of_micro_batch = 0;
};

/// None where neither the row nor its stack says how large micro-batches are.
std::optional<Batches> batches_of(const PublishedRow& row) {
  const std::int64_t ranks =
      std::max<std::int64_t>(1, data_parallel_ranks(row) / context_ranks(row));
  const std::int64_t accumulate = row.accumulate.value_or(1);
  std::optional<std::int64_t> of_step;
  if (row.global_batch) of_step = std::max<std::int64_t>(1, *row.global_batch / ranks);
  std::optional<std::int64_t> micro = row.micro_batch;
  if (!micro && of_step && row.accumulate)
    micro = std::max<std::int64_t>(1, *of_step / *row.accumulate);
  const std::int64_t stages = row.pipeline_parallel.value_or(1);
  if (!micro && of_step && stages > 1 && stack_of(row).micro_batch_a_rank)
    micro = std::max<std::int64_t>(1, *of_step / stages);
  const std::int64_t usual = stack_of(row).micro_batch_tokens;
  if (!micro && usual > 0 && row.seq) micro = std::max<std::int64_t>(1, usual / *row.seq);
  if (!micro) return std::nullopt;
  Batches batches{.of_step = of_step.value_or(*micro * accumulate), .of_micro_batch = *micro};
  batches.of_micro_batch = std::min(batches.of_micro_batch, batches.of_step);
  return batches;
}

/// Ways of dividing a model that are not modelled: the letters before their size.
struct DividedBy {
  std::string_view letters;
  std::string_view name;
};
constexpr std::array<DividedBy, 1> strategy_sizes{{{"SP", "sequence parallelism"}}};

std::string why_divided(const PublishedRow& row) {
  if (!row.tensor_parallel && number_after(row.strategy, "TP").value_or(1) > 1)
    return "tensor parallelism: tp not stated";
  for (const DividedBy& by : strategy_sizes)
    if (const auto size = number_after(row.strategy, by.letters); size && *size > 1)
      return fmt::format("{}: {} ranks", by.name, *size);
  return {};
}

/// Parts that a model cannot be divided into.
std::string why_no_parts(const PublishedRow& row) {
  const std::int64_t ranks = tensor_ranks(row);
  const std::pair<std::int64_t, std::string_view> divided[] = {
      {*row.heads, "heads"},
      {row.kv_heads.value_or(*row.heads), "key-value heads"},
      {row.ffn.value_or(4 * *row.hidden), "feed-forward columns"}};
  for (const auto& [count, name] : divided)
    if (count % ranks != 0)
      return fmt::format("tensor parallelism: {} {} on {} ranks", count, name, ranks);
  if (*row.gpus % ranks != 0)
    return fmt::format("tensor parallelism: {} GPUs in groups of {}", *row.gpus, ranks);
  return {};
}

bool attends_eagerly(const PublishedRow& row, const TrainingStack& stack) {
  if (row.attention.empty()) return stack.eager_attention;
  constexpr std::array<std::string_view, 4> words{"eager", "math", "unfused", "fused softmax"};
  return std::ranges::any_of(words,
                             [&](std::string_view word) { return has_word(row.attention, word); });
}

/// Megatron-LM's --sequence-parallel.
bool divides_sequence(const PublishedRow& row, const TrainingStack& stack) {
  return stack.divides_sequence || has_word(row.strategy, "+ SP") ||
         has_word(row.strategy, "sequence parallel") ||
         has_word(row.checkpointing, "sequence parallel");
}

/// Megatron-LM's --tp-comm-overlap. Compute waits for the sums of torchtitan's asynchronous tensor
/// parallelism, which saves the copies but hides little communication: 829 tokens a second without
/// it, 876 with it (torchtitan benchmarks/llama3_h100_202412_torchtitan.md, table 4).
bool overlaps_sums(const PublishedRow& row, const TrainingStack& stack) {
  return stack.overlaps_sums || has_word(row.strategy, "tp-comm");
}

/// Fused kernels of asynchronous tensor parallelism read and write each piece in place. Source:
/// PyTorch torch/distributed/_symmetric_memory (_fused_all_gather_matmul,
/// _fused_matmul_reduce_scatter).
bool copies_tokens(const PublishedRow& row, const TrainingStack& stack) {
  return stack.tokens_come_second && !has_word(row.strategy, "async");
}

/// Sequences that cannot be shared.
std::string why_no_context(const PublishedRow& row) {
  const std::int64_t ranks = context_ranks(row);
  if (ranks == 1) return {};
  if (data_parallel_ranks(row) % ranks != 0)
    return fmt::format("context parallelism: {} GPUs in groups of {}", *row.gpus, ranks);
  if (*row.seq % ranks != 0)
    return fmt::format("context parallelism: {} tokens on {} ranks", *row.seq, ranks);
  if (attends_eagerly(row, stack_of(row))) return "context parallelism: of eager attention";
  return {};
}

/// A pipeline that cannot be: its stages, its ranks or its interleaving.
std::string why_no_pipeline(const PublishedRow& row) {
  const std::int64_t ranks = row.pipeline_parallel.value_or(1);
  if (ranks == 1 && number_after(row.strategy, "PP").value_or(1) > 1)
    return "pipeline: pp not stated";
  if (ranks == 1) return {};
  const std::int64_t of_rank = stages_of_rank(row);
  if (*row.gpus % ranks != 0)
    return fmt::format("pipeline: {} GPUs are not {} stages", *row.gpus, ranks);
  if (ranks * of_rank > *row.layers)
    return fmt::format("pipeline: {} stages of {} layers", ranks * of_rank, *row.layers);
  return {};
}

bool in_eight_bits(const PublishedRow& row) {
  return has_word(row.precision, "fp8") || has_word(row.precision, "float8") ||
         has_word(row.precision, "fp4") || has_word(row.precision, "int8");
}

std::string why_not_in_eight_bits(const PublishedRow& row) {
  if (!in_eight_bits(row)) return {};
  const bool known = stack_of(row).float8.casts != Float8Casts::none;
  const bool float8 = has_word(row.precision, "fp8") || has_word(row.precision, "float8");
  return known && float8 ? "" : fmt::format("FP8: precision \"{}\"", row.precision);
}

/// The stack's way, and what of it the row's words change.
Float8Kernels float8_of(const PublishedRow& row, ShardingStrategy sharding) {
  if (!in_eight_bits(row)) return {};
  Float8Kernels kernels = stack_of(row).float8;
  const bool by_rows = has_word(row.precision, "rowwise");
  if (has_word(row.precision, "CS")) kernels.casts = Float8Casts::current;
  if (by_rows && kernels.casts == Float8Casts::compiled) kernels.casts = Float8Casts::rowwise;
  // What is cast with a scale for each row is gathered as it was.
  if (by_rows) kernels.gathers_casts = false;
  const bool whole = sharding == ShardingStrategy::no_shard || sharding == ShardingStrategy::zero1;
  if (!whole && !kernels.gathers_casts) kernels.casts_weights = true;
  return kernels;
}

std::string why_offloaded(const PublishedRow& row) {
  if (!row.offload.empty() && row.offload != "none") return fmt::format("offload: {}", row.offload);
  return has_word(row.strategy, "offload") ? fmt::format("offload: {}", row.strategy) : "";
}

TrainingPrecision precision_of(const PublishedRow& row) {
  if (has_word(row.precision, "fp16") || has_word(row.precision, "float16"))
    return TrainingPrecision::fp16_mixed;
  if (has_word(row.precision, "bf16") || row.precision.empty() || in_eight_bits(row))
    return TrainingPrecision::bf16_mixed;
  return TrainingPrecision::fp32;
}

KernelFusion fusion_of(const PublishedRow& row, const TrainingStack& stack) {
  if (has_word(row.compile, "XLA")) return KernelFusion::xla;
  if (has_word(row.compile, "yes")) return KernelFusion::compiled;
  return stack.fusion;
}

/// Reductions that overlap, as those of Megatron-LM's distributed optimizer, are played instead;
/// not those of experts, which are in other groups than the rest.
bool updates_as_megatron(const PublishedRow& row, const TrainingStack& stack,
                         ShardingStrategy sharding) {
  if (!stack.updates_as_megatron) return false;
  if (expert_ranks(row) > 1 && sharding == ShardingStrategy::zero1) return true;
  if (sharding == ShardingStrategy::no_shard) return true;
  return sharding == ShardingStrategy::zero1 && !stack.overlaps;
}

Runtime runtime_of(const PublishedRow& row, const TrainingStack& stack, ShardingStrategy sharding) {
  if (updates_as_megatron(row, stack, sharding)) return Runtime::deepspeed;
  if (sharding == ShardingStrategy::no_shard) return Runtime::ddp;
  if (sharding == ShardingStrategy::zero1 || has_word(row.strategy, "DeepSpeed"))
    return Runtime::deepspeed;
  return stack.sharded;
}

/// By "type:transformer|embedding", in the place of "type:transformer".
bool counts_embeddings(const PublishedRow& row) {
  return row.layers && divide_with_ends(*row.layers, row.pipeline_parallel.value_or(1));
}

/// Gradients' dtype on the wire: composer's "mp=PURE" computes and reduces in one, its "mp=DEFAULT"
/// reduces in float32.
std::optional<Dtype> reduced_in(const PublishedRow& row, const TrainingStack& stack) {
  if (has_word(row.precision, "mp=DEFAULT") || has_word(row.precision, "fp32 grad") ||
      has_word(row.notes, "fp32 reduce"))
    return Dtype::float32;
  if (stack.sums_up_with_counted_embeddings && !counts_embeddings(row)) return stack.reduced_in;
  if (stack.pipelines_by_deepspeed && has_word(row.precision, "bf16")) return Dtype::float32;
  return stack.reduced_in;
}

/// What blocks keep in 16 bits for their backward where nothing is run again: about eight times the
/// hidden size and four times that of the feed-forward layer, a token.
Bytes kept_by_blocks(const PublishedRow& row, std::int64_t micro_batch) {
  const std::int64_t of_token = 8 * *row.hidden + 4 * row.ffn.value_or(4 * *row.hidden);
  return Bytes{2 * of_token * *row.seq * micro_batch * *row.layers};
}

/// A row's words for activation checkpointing as --checkpointing takes them.
std::string_view checkpointing_of(const PublishedRow& row, const TrainingStack& stack,
                                  bool blocks_fit) {
  const std::string& text = row.checkpointing;
  if (text.empty()) return stack.checkpointing;
  if (has_word(text, "none") || has_word(text, "no")) return "none";
  if (has_word(text, "selective") && stack.selects_blocks) return blocks_fit ? "every:2" : "full";
  if (has_word(text, "selective")) return "selective";
  return stack.full;
}

/// Transformer Engine prefers cuDNN's attention to FlashAttention-2 from Hopper on. Source:
/// transformer_engine/pytorch/attention/dot_product_attention/utils.py, get_attention_backend.
std::optional<AttentionLibrary> attention_of(const PublishedRow& row, const TrainingStack& stack,
                                             const HardwareProfile& profile) {
  constexpr int hopper = 90;
  const bool by_engine =
      row.attention.find("TE") != std::string::npos && profile.compute_capability >= hopper;
  if (by_engine || has_word(row.attention, "cuDNN")) return AttentionLibrary::cudnn;
  return stack.attention;
}

PublishedRow with_padded_vocabulary(PublishedRow row, const TrainingStack& stack) {
  if (!row.vocabulary && stack.vocabulary > 0)
    row.vocabulary = stack.vocabulary / tensor_ranks(row) * tensor_ranks(row);
  const std::int64_t multiple = stack.vocabulary_multiple;
  if (row.vocabulary) row.vocabulary = (*row.vocabulary + multiple - 1) / multiple * multiple;
  return row;
}

/// Puts together what row and stack say.
class SetupBuilder {
 public:
  SetupBuilder(const PublishedRow& row, const StatedSharding& stated)
      : SetupBuilder(
            row, stated,
            published_model(with_padded_vocabulary(row, stack_of(row)), stack_of(row).dropout)) {}

  DividedTraining build() {
    PublishedMachine machine = *published_machine(row_);
    result_.profile = std::move(machine.profile);
    take_over(machine.assumed);
    take_over(result_.model.assumed);
    if (!row_.vocabulary && stack_.vocabulary > 0)
      result_.assumed.push_back(fmt::format("a vocabulary of {} tokens", stack_.vocabulary));
    set_pipeline();
    set_tensor_parts();
    set_expert_parts();
    set_world();
    set_update();
    set_runtime();
    set_loop();
    set_kernels();
    return std::move(result_);
  }

 private:
  SetupBuilder(const PublishedRow& row, const StatedSharding& stated, const ShapedModel& model)
      : row_(of_one_rank(row)),
        stack_(stack_of(row)),
        stated_(stated),
        result_{.model = model, .played = model} {}

  /// With the part of a sequence that a rank has.
  static PublishedRow of_one_rank(PublishedRow row) {
    row.seq = *row.seq / context_ranks(row);
    return row;
  }

  void take_over(const std::vector<std::string>& assumed) {
    result_.assumed.insert(result_.assumed.end(), assumed.begin(), assumed.end());
  }

  void set_pipeline() {
    const bool has_stages = row_.pipeline_parallel.value_or(1) > 1;
    if (!has_stages && !updates_as_megatron(row_, stack_, stated_.sharding)) return;
    const PublishedRow padded = with_padded_vocabulary(row_, stack_);
    result_.pipeline =
        published_pipeline(padded, result_.model, stack_, batches_of(row_)->of_micro_batch);
    result_.played = model_of_shape(with_layers(shape_of(padded), result_.pipeline->played_layers),
                                    stack_.dropout, is_tied(result_.model));
    if (has_stages) result_.assumed.push_back(fmt::format("stages of {} layers", text_of_layers()));
  }

  void set_tensor_parts() {
    const std::int64_t ranks = tensor_ranks(row_);
    if (ranks == 1) return;
    const PublishedRow padded = with_padded_vocabulary(row_, stack_);
    const int layers =
        result_.pipeline ? result_.pipeline->played_layers : static_cast<int>(*row_.layers);
    result_.played = tensor_part(with_layers(shape_of(padded), layers), ranks, stack_.dropout,
                                 is_tied(result_.model));
    result_.tensor = {.ranks = static_cast<int>(ranks),
                      .tokens = batches_of(row_)->of_micro_batch * *row_.seq,
                      .hidden = *row_.hidden,
                      .divides_sequence = divides_sequence(row_, stack_),
                      .overlaps = overlaps_sums(row_, stack_),
                      .copies_tokens = copies_tokens(row_, stack_)};
    if (result_.pipeline)
      result_.pipeline->shared_gradient = Bytes{result_.pipeline->shared_gradient.count / ranks};
  }

  void set_expert_parts() {
    if (!row_.experts) return;
    const std::int64_t ranks = expert_ranks(row_);
    const int layers =
        result_.pipeline ? result_.pipeline->played_layers : static_cast<int>(*row_.layers);
    const PublishedRow padded = with_padded_vocabulary(row_, stack_);
    result_.played = expert_part(with_layers(shape_of(padded), layers), ranks, stack_.dropout,
                                 is_tied(result_.model));
    result_.experts = {.ranks = static_cast<int>(ranks),
                       .rows = batches_of(row_)->of_micro_batch * *row_.seq * row_.experts->chosen,
                       .hidden = *row_.hidden,
                       .counts_tokens = !stack_.pads_experts};
    result_.assumed.emplace_back("experts get equal shares of the tokens");
  }

  std::string text_of_layers() const {
    return fmt::format("{}", fmt::join(result_.pipeline->layers, ", "));
  }

  void set_world() {
    result_.world = static_cast<int>(data_parallel_ranks(row_));
    shards_ = result_.world;
    const bool within = stated_.sharding == ShardingStrategy::zero1 && stated_.group &&
                        result_.world % *stated_.group == 0;
    if (within) shards_ = *stated_.group;
    if (stated_.sharding != ShardingStrategy::zero1 || !stack_.owns_whole_tensors) return;
    const auto tensors = static_cast<int>(result_.played.model.parameters.size());
    shards_ = std::min(shards_, tensors);
    if (!within) result_.owners = shards_;
  }

  void set_update() {
    if (!updates_as_megatron(row_, stack_, stated_.sharding)) return;
    const bool shards = stated_.sharding == ShardingStrategy::zero1;
    result_.update =
        update_apart(result_, row_.experts.value_or(ExpertShape{}), shards ? shards_ : 1,
                     reduced_in(row_, stack_).value_or(Dtype::bfloat16));
    result_.update->sums_everywhere = stack_.sums_everywhere;
    shards_ = 1;
  }

  void set_runtime() {
    result_.runtime = runtime_of(row_, stack_, stated_.sharding);
    RuntimeRequest request{.runtime = result_.runtime,
                           .sharding = result_.update ? ShardingStrategy::zero1 : stated_.sharding,
                           .precision = precision_of(row_),
                           .use_original_parameters = stack_.uses_original_parameters,
                           .world = shards_,
                           .ranks_per_node = std::min(shards_, result_.profile.ranks_per_node)};
    result_.setup = eager::requested_setup(result_.played.model, request);
    // Gradients lie in buckets also where an update that is weighed apart stands for the other
    // ranks.
    if (result_.world > 1 && result_.runtime == Runtime::ddp)
      result_.setup.runtime = eager::ddp::Options{};
    if (row_.precision.empty()) result_.assumed.emplace_back("bf16 mixed precision");
    std::visit([&](auto& runtime) { adjust(runtime); }, result_.setup.runtime);
    result_.assumed.push_back(fmt::format("as {} trains ({})", stack_.name, stack_.source));
  }

  void adjust(eager::PlainSetup&) {}
  void adjust(eager::ddp::Options& options) { options.gradient_as_bucket_view = true; }
  void adjust(eager::Fsdp1Setup& setup) {
    if (const auto dtype = reduced_in(row_, stack_)) setup.options.precision.reduction = dtype;
    if (stack_.backward_prefetch_late)
      setup.options.backward_prefetch = eager::fsdp1::BackwardPrefetch::post;
  }
  void adjust(eager::Fsdp2Setup& setup) {
    if (const auto dtype = reduced_in(row_, stack_)) setup.mixed_precision.reduce_dtype = dtype;
  }
  void adjust(eager::DeepSpeedSetup& setup) {
    setup.settings.overlap_comm = stack_.overlaps;
    setup.settings.multi_rank_all_reduce = !stack_.owns_whole_tensors;
    setup.settings.accumulation_dtype = reduced_in(row_, stack_);
  }

  void set_loop() {
    const Batches batches = *batches_of(row_);
    if (!row_.micro_batch)
      result_.assumed.push_back(
          fmt::format("micro-batches of {} sequences", batches.of_micro_batch));
    result_.micro_batches =
        static_cast<double>(batches.of_step) / static_cast<double>(batches.of_micro_batch);
    result_.tokens_per_step = batches.of_step * *row_.seq * result_.world;
    eager::TrainingSettings& loop = result_.setup.loop;
    loop.batch = batches.of_micro_batch;
    loop.length = *row_.seq;
    loop.syncs_once = !stack_.reduces_every_micro_batch;
    loop.loss = stack_.loss_in_model ? eager::LossPlace::in_model : eager::LossPlace::after_model;
    loop.metric_losses = stack_.metric_losses;
    loop.clips = true;
    loop.optimizer.implementation = stack_.optimizer;
  }

  void set_kernels() {
    eager::TrainingSetup& setup = result_.setup;
    result_.kernels = {.fusion = fusion_of(row_, stack_),
                       .attention = attention_of(row_, stack_, result_.profile),
                       .scope = stack_.compiled};
    const std::int64_t most = stack_.most_gpus_without_blocking;
    result_.waits = {.each_launch = most > 0 && *row_.gpus > most,
                     .each_micro_batch = stack_.reads_batch_sizes};
    if (result_.waits.each_launch) result_.assumed.emplace_back("CUDA_LAUNCH_BLOCKING=1");
    result_.unfused_loss = stack_.unfused_loss;
    result_.float8 = float8_of(row_, stated_.sharding);
    const DeviceEfficiency& efficiency = efficiency_of(result_.profile.compute_capability);
    result_.float8.precise_sums = efficiency.matmul.precise_sums;
    result_.float8.transposed_casts = efficiency.memory.transposed_casts;
    if (result_.float8.casts != Float8Casts::none)
      result_.assumed.push_back(
          fmt::format("linear layers of blocks in FP8, {} scaling", name_of(result_.float8.casts)));
    result_.ring = {
        .ranks = static_cast<int>(context_ranks(row_)),
        .distance = static_cast<int>(tensor_ranks(row_)),
        .waits = stack_.traces_ring && result_.kernels.fusion == KernelFusion::compiled};
    if (result_.ring.ranks > 1 && !result_.ring.waits)
      result_.assumed.emplace_back("ring attention's exchange runs behind attention");
    const bool blocks_fit = kept_by_blocks(row_, setup.loop.batch) < result_.profile.memory;
    const std::string_view checkpointing = checkpointing_of(row_, stack_, blocks_fit);
    if (row_.checkpointing.empty() || stack_.selects_blocks)
      result_.assumed.push_back(fmt::format("activation checkpointing {}", checkpointing));
    const auto choice = eager::parse_checkpoint_choice(checkpointing, "act_ckpt");
    setup.checkpointing = eager::checkpointing_of(result_.played.model, choice);
    setup.checkpointing.options.reentrant = stack_.checkpoints_reentrant && !choice.selective;
    if (choice.selective && stack_.selects_attention)
      setup.checkpointing.options.saves = eager::all_but_core_attention();
    setup.session.compute_capability = result_.profile.compute_capability;
    setup.session.attention.cudnn = false;
    if (attends_eagerly(row_, stack_))
      attend_by_products(result_, *row_.heads / tensor_ranks(row_));
    setup.model.dropout = stack_.dropout > 0;
    setup.model.torchtitan_attention = stack_.torchtitan_attention;
  }

  PublishedRow row_;
  const TrainingStack& stack_;
  StatedSharding stated_;
  int shards_ = 1;
  DividedTraining result_;
};

/// maxtext's train.py, calculate_tflops_training_per_device: six flops a parameter of the products
/// and token, and attention over all pairs of tokens.
double flops_of_step(const PublishedRow& row, const DividedTraining& scenario) {
  const double tokens = static_cast<double>(scenario.tokens_per_step);
  const double embedding =
      static_cast<double>(*row.hidden) * static_cast<double>(row.vocabulary.value_or(0));
  const double products =
      static_cast<double>(scenario.model.model.parameter_elements()) - embedding;
  const double attention = 12.0 * static_cast<double>(*row.layers) *
                           static_cast<double>(*row.hidden) * static_cast<double>(*row.seq);
  return tokens * (6 * products + attention);
}

}  // namespace

std::string why_not_predicted(const PublishedRow& row) {
  if (!row.unreadable.empty()) return row.unreadable;
  if (std::string why = why_not_in_eight_bits(row); !why.empty()) return why;
  if (std::string why = why_divided(row); !why.empty()) return why;
  if (std::string why = missing_shape(row); !why.empty()) return why;
  if (!row.gpus) return "number of GPUs not stated";
  if (std::string why = why_offloaded(row); !why.empty()) return why;
  if (!published_machine(row)) return fmt::format("no figures of a GPU \"{}\"", row.gpu);
  if (!stated_sharding(row)) return fmt::format("no known strategy in \"{}\"", row.strategy);
  if (!batches_of(row)) return "micro-batch not stated";
  if (std::string why = why_no_context(row); !why.empty()) return why;
  if (std::string why = why_no_parts(row); !why.empty()) return why;
  if (const std::string_view why = why_no_experts(row); !why.empty()) return std::string(why);
  if (data_parallel_ranks(row) % expert_ranks(row) != 0)
    return "expert parallelism: groups do not divide the data-parallel ranks";
  if (std::string why = why_no_pipeline(row); !why.empty()) return why;
  return {};
}

DividedTraining published_scenario(const PublishedRow& row) {
  return SetupBuilder(row, *stated_sharding(row)).build();
}

std::optional<Duration> measured_step(const PublishedRow& row, const DividedTraining& scenario,
                                      std::vector<std::string>& assumed) {
  if (row.step_s) return Duration::from_seconds(*row.step_s);
  const auto gpus = static_cast<double>(*row.gpus);
  if (row.tokens_per_s) {
    assumed.emplace_back("the measured step follows from tokens a second");
    return Duration::from_seconds(static_cast<double>(scenario.tokens_per_step) /
                                  (*row.tokens_per_s * gpus));
  }
  if (row.tflops) {
    assumed.emplace_back("the measured step follows from TFLOP/s by 6 N + 12 L H S flops a token");
    return Duration::from_seconds(flops_of_step(row, scenario) / (*row.tflops * 1e12 * gpus));
  }
  return std::nullopt;
}

}  // namespace shardscope
