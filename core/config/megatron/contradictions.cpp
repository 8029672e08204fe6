#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/base/error.h"
#include "core/config/megatron/settings.h"

namespace shardscope::megatron {
namespace {

/// What cannot be: sizes beyond these are typing errors, and products of them would overflow.
constexpr std::int64_t most_ranks = 1 << 20, most_layers = 1 << 10, most_width = 1 << 20,
                       most_columns = 1 << 22, most_tokens_at_once = 1 << 24,
                       most_scores = std::int64_t{1} << 40, most_tokens = 1 << 26,
                       most_sequences = 1 << 24, most_experts = 1 << 14, most_heads = 1 << 14;
/// Each is played: forwards of a step, of all micro-batches and stages.
constexpr std::int64_t most_forwards = 1 << 18;

class Checker {
 public:
  explicit Checker(const Settings& settings) : s_(settings) {}

  std::vector<Contradiction> contradictions(bool batch_too) {
    check_sizes();
    if (!found_.empty()) return std::move(found_);
    check_ranks();
    if (!found_.empty()) return std::move(found_);
    check_heads();
    check_tensor();
    check_context();
    check_pipeline();
    check_experts();
    check_latents();
    if (batch_too) check_batch();
    check_switches();
    return std::move(found_);
  }

 private:
  void refuse(std::string_view flag, std::string what, std::string way_out) {
    found_.push_back({.flag = flag, .what = std::move(what), .way_out = std::move(way_out)});
  }
  void leave(std::string_view flag, std::string what, std::string way_out) {
    found_.push_back({.flag = flag,
                      .what = std::move(what) + ": that is not predicted",
                      .way_out = std::move(way_out),
                      .is_refused = false});
  }

  void in_range(std::string_view flag, std::int64_t value, std::int64_t most,
                std::int64_t least = 1, std::string_view name = {}) {
    if (value >= least && value <= most) return;
    const std::string_view subject = name.empty() ? "the value" : name;
    const std::string what = fmt::format("{} is {}", subject, value);
    const std::string way_out = fmt::format("give {} to {}", least, most);
    // The upper ends are those of what is predicted here.
    return value > most ? leave(flag, what, way_out) : refuse(flag, what, way_out);
  }

  void check_sizes() {
    const DecoderShape& shape = s_.shape;
    in_range("tensor-model-parallel-size", s_.tensor, most_ranks);
    in_range("pipeline-model-parallel-size", s_.pipeline, most_layers);
    in_range("context-parallel-size", s_.context, most_ranks);
    in_range("expert-model-parallel-size", s_.expert, most_ranks);
    in_range("nproc-per-node", s_.world, most_ranks, 1, "the number of ranks");
    in_range("num-virtual-stages-per-pipeline-rank", s_.stages_per_rank, most_layers);
    in_range("num-layers", shape.layers, most_layers);
    in_range("hidden-size", shape.hidden, most_width);
    in_range("num-attention-heads", shape.heads, most_heads);
    in_range("num-query-groups", shape.kv_heads, most_width);
    in_range("ffn-hidden-size", shape.ffn, most_width);
    in_range("kv-channels", shape.head_size, most_width);
    in_range("vocab-size", shape.vocabulary, most_tokens);
    in_range("seq-length", shape.seq, most_tokens);
    in_range("max-position-embeddings", s_.max_positions, most_tokens, 0);
    in_range("make-vocab-size-divisible-by", s_.vocabulary_multiple, most_tokens);
    in_range("micro-batch-size", s_.micro_batch, most_sequences);
    in_range("global-batch-size", s_.global_batch, most_sequences, 0);
    in_range("num-experts", shape.experts.experts, most_experts, 0);
    in_range("q-lora-rank", shape.latents.query_rank, most_width, 0);
    in_range("kv-lora-rank", shape.latents.rank, most_width, 0);
    in_range("qk-head-dim", shape.latents.plain, most_width, 0);
    in_range("qk-pos-emb-head-dim", shape.latents.rotary, most_width, 0);
    in_range("v-head-dim", shape.latents.value, most_width, 0);
    if (shape.experts.experts > 0) in_range("moe-ffn-hidden-size", shape.experts.inner, most_width);
    in_range("moe-shared-expert-intermediate-size", shape.experts.shared, most_experts, 0,
             "its multiple of --moe-ffn-hidden-size");
    in_range("moe-layer-freq", shape.experts.dense_layers, most_layers, 0,
             "the number of layers without experts");
    in_range("decoder-first-pipeline-num-layers", s_.first_rank_layers, most_layers, 0);
    in_range("decoder-last-pipeline-num-layers", s_.last_rank_layers, most_layers, 0);
    if (s_.recompute == Recompute::full)
      in_range("recompute-num-layers", s_.recompute_layers, most_layers);
    if (found_.empty()) check_products();
  }

  void check_products() {
    const DecoderShape& shape = s_.shape;
    const LatentShape& latents = shape.latents;
    in_range("kv-channels", shape.heads * shape.head_size, most_columns, 1,
             "--num-attention-heads x --kv-channels");
    in_range("v-head-dim", shape.heads * (latents.plain + latents.rotary + latents.value),
             most_columns, 0, "--num-attention-heads x the sizes of a head's parts");
    in_range("micro-batch-size", s_.micro_batch * shape.seq, most_tokens_at_once, 1,
             "--micro-batch-size x --seq-length");
    in_range("num-experts", shape.experts.experts * shape.experts.inner, most_tokens_at_once, 0,
             "--num-experts x --moe-ffn-hidden-size");
    if (s_.attention != Attention::unfused) return;
    const std::int64_t tokens = s_.micro_batch * shape.seq;
    const std::int64_t rows = tokens * shape.heads;
    if (rows > most_scores / shape.seq)
      leave("seq-length",
            fmt::format("{} sequences x {} heads x {}^2 tokens are more scores of attention than "
                        "{}",
                        s_.micro_batch, shape.heads, shape.seq, most_scores),
            "give shorter sequences, or --attention-backend flash");
  }

  void check_ranks() {
    const std::int64_t parts = std::int64_t{s_.tensor} * s_.pipeline * s_.context;
    if (s_.world % parts != 0)
      refuse("nproc-per-node",
             fmt::format("{} ranks are not a multiple of tensor {} x pipeline {} x context {} = {}",
                         s_.world, s_.tensor, s_.pipeline, s_.context, parts),
             fmt::format("give --world with a multiple of {}", parts));
  }

  void divides(std::int64_t count, std::string_view what, int ranks, std::string_view by,
               std::string_view flag) {
    if (count % ranks != 0)
      refuse(flag, fmt::format("{} {} do not divide over {} {} ranks", count, what, ranks, by),
             fmt::format("give a number of ranks that divides {}", count));
  }

  void check_heads() {
    const DecoderShape& shape = s_.shape;
    if (shape.heads % shape.kv_heads != 0)
      refuse("num-query-groups",
             fmt::format("{} attention heads are not a multiple of {} query groups", shape.heads,
                         shape.kv_heads),
             "give --num-query-groups that divides --num-attention-heads");
    const bool dense = shape.heads * shape.head_size == shape.hidden;
    if (!s_.gated && !dense && shape.latents.rank == 0)
      leave("kv-channels",
            fmt::format("layers without gates have {} heads of {}, which are not the hidden size "
                        "of {}",
                        shape.heads, shape.head_size, shape.hidden),
            "give --swiglu, or leave --kv-channels out");
    if (s_.max_positions > 0 && s_.max_positions < shape.seq)
      refuse("max-position-embeddings",
             fmt::format("{} positions are fewer than the {} tokens of a sequence",
                         s_.max_positions, shape.seq),
             "give --max-position-embeddings of at least --seq-length");
  }

  void check_tensor() {
    constexpr std::string_view flag = "tensor-model-parallel-size";
    if (s_.tensor == 1) return check_without_tensor();
    divides(s_.shape.heads, "attention heads", s_.tensor, "tensor-parallel", flag);
    divides(s_.shape.ffn, "feed-forward columns", s_.tensor, "tensor-parallel", flag);
    const std::int64_t groups = s_.shape.kv_heads;
    if (s_.shape.latents.rank == 0 && groups % s_.tensor != 0) {
      if (s_.tensor % groups == 0)
        leave(flag,
              fmt::format("{} query groups are copied to {} tensor-parallel ranks", groups,
                          s_.tensor),
              fmt::format("give at most {} tensor-parallel ranks", groups));
      else
        divides(groups, "query groups", s_.tensor, "tensor-parallel", flag);
    }
    if (s_.sequence_parallel && s_.shape.seq % s_.context == 0)
      divides(s_.shape.seq / s_.context, "tokens of a rank's sequence", s_.tensor,
              "tensor-parallel", flag);
    if (s_.overlaps_tensor && !s_.sequence_parallel)
      refuse("tp-comm-overlap", "overlap of tensor parallelism needs sequence parallelism",
             "give --sequence-parallel, or leave --tp-comm-overlap out");
  }

  void check_without_tensor() {
    if (s_.sequence_parallel)
      refuse("sequence-parallel",
             "sequence parallelism without tensor parallelism: Megatron-LM turns it off",
             "leave --sequence-parallel out, or give --tensor-model-parallel-size above 1");
    if (s_.overlaps_tensor)
      refuse("tp-comm-overlap", "there is no tensor parallelism that could overlap",
             "leave --tp-comm-overlap out, or give --tensor-model-parallel-size above 1");
  }

  void check_context() {
    if (s_.context == 1) return;
    divides(s_.shape.seq, "tokens of a sequence (head and tail of each rank)", 2 * s_.context,
            "context-parallel half", "context-parallel-size");
    if (s_.attention == Attention::unfused)
      refuse("context-parallel-size", "context parallelism needs fused attention",
             "leave --transformer-impl local and --attention-backend unfused out");
  }

  void check_pipeline() {
    if (s_.stages_per_rank > 1 && s_.pipeline == 1)
      refuse("num-virtual-stages-per-pipeline-rank", "virtual stages are given without a pipeline",
             "give --pipeline-model-parallel-size above 1");
    if (s_.first_rank_layers > 0 || s_.last_rank_layers > 0) return check_uneven_pipeline();
    const std::int64_t counted =
        s_.shape.layers + (s_.embedding_as_layer ? 1 : 0) + (s_.loss_as_layer ? 1 : 0);
    const std::int64_t stages = std::int64_t{s_.pipeline} * s_.stages_per_rank;
    if (counted % stages != 0)
      refuse("pipeline-model-parallel-size",
             fmt::format("{} layers do not divide over {} stages{}", counted, stages,
                         s_.stages_per_rank > 1
                             ? fmt::format(" ({} ranks of {})", s_.pipeline, s_.stages_per_rank)
                             : ""),
             fmt::format("give a number of stages that divides {}, or "
                         "--decoder-first-pipeline-num-layers and "
                         "--decoder-last-pipeline-num-layers",
                         counted));
  }

  /// Source: transformer_config.py, "Uneven PP".
  void check_uneven_pipeline() {
    const bool has_first = s_.first_rank_layers > 0, has_last = s_.last_rank_layers > 0;
    const std::string_view flag =
        has_first ? "decoder-first-pipeline-num-layers" : "decoder-last-pipeline-num-layers";
    if (s_.embedding_as_layer || s_.loss_as_layer)
      refuse(flag,
             "layers of the first or last rank are given beside "
             "--account-for-embedding-in-pipeline-split or --account-for-loss-in-pipeline-split",
             "give one of the two");
    for (const std::int64_t layers : {s_.first_rank_layers, s_.last_rank_layers})
      if (layers % s_.stages_per_rank != 0)
        refuse(flag,
               fmt::format("{} layers of a rank do not divide over its {} virtual stages", layers,
                           s_.stages_per_rank),
               fmt::format("give a multiple of {}", s_.stages_per_rank));
    const std::int64_t left = s_.shape.layers - s_.first_rank_layers - s_.last_rank_layers;
    const int ranks = s_.pipeline - (has_first ? 1 : 0) - (has_last ? 1 : 0);
    const bool leaves_none = left == 0 && ranks == 0;
    if (leaves_none) return;
    const std::int64_t parts = std::int64_t{ranks} * s_.stages_per_rank;
    if (left <= 0 || ranks <= 0 || left % parts != 0)
      refuse(flag,
             fmt::format("{} of {} layers are left for {} other pipeline ranks{}", left,
                         s_.shape.layers, ranks,
                         s_.stages_per_rank > 1
                             ? fmt::format(" of {} virtual stages", s_.stages_per_rank)
                             : ""),
             ranks > 0 ? fmt::format("leave a multiple of {} layers", parts)
                       : "give layers for each rank of the pipeline");
  }

  void check_experts() {
    const ExpertShape& experts = s_.shape.experts;
    if (experts.experts == 0) {
      if (s_.expert > 1)
        refuse("expert-model-parallel-size",
               fmt::format("{} expert-parallel ranks, and the model has no experts", s_.expert),
               "give --num-experts, or leave expert parallelism out");
      return;
    }
    if (experts.chosen < 1 || experts.chosen > experts.experts)
      refuse("moe-router-topk", fmt::format("the value is {}", experts.chosen),
             fmt::format("give 1 to {}", experts.experts));
    if (experts.dense_layers > s_.shape.layers)
      refuse("moe-layer-freq",
             fmt::format("{} layers without experts are more than the {} layers",
                         experts.dense_layers, s_.shape.layers),
             "give a pattern of as many layers as the model has");
    if (s_.tensor > 1)
      leave("tensor-model-parallel-size",
            fmt::format("{} experts a layer beside {} tensor-parallel ranks", experts.experts,
                        s_.tensor),
            "give --tensor-model-parallel-size 1, and expert or pipeline parallelism instead");
    if (!s_.gated) leave("num-experts", "experts without gated layers", "give --swiglu");
    divides(experts.experts, "experts", s_.expert, "expert-parallel", "expert-model-parallel-size");
    divides(s_.data_context(), "data-parallel ranks", s_.expert, "expert-parallel",
            "expert-model-parallel-size");
  }

  void check_latents() {
    if (s_.shape.latents.rank > 0 && s_.shape.experts.experts == 0)
      leave("multi-latent-attention", "attention over latents in a model without experts",
            "give --num-experts");
  }

  void check_batch() {
    const std::int64_t at_once = s_.micro_batch * s_.data();
    if (s_.global_batch % at_once != 0)
      return refuse("global-batch-size",
                    fmt::format("a batch of {} sequences is no multiple of micro-batches of {} on "
                                "{} data-parallel ranks",
                                s_.global_batch, s_.micro_batch, s_.data()),
                    fmt::format("give --global-batch-size with a multiple of {}", at_once));
    const std::int64_t micro_batches = s_.micro_batches();
    const std::int64_t stages = std::int64_t{s_.pipeline} * s_.stages_per_rank;
    if (micro_batches > most_forwards / stages)
      leave("global-batch-size",
            fmt::format("{} micro-batches in {} stage{} are more than {} forwards of a step",
                        micro_batches, stages, stages == 1 ? "" : "s", most_forwards),
            fmt::format("give --global-batch-size of at most {}, or a larger --micro-batch-size",
                        most_forwards / stages * at_once));
    if (s_.stages_per_rank > 1 && micro_batches % s_.pipeline != 0)
      refuse("global-batch-size",
             fmt::format("{} micro-batches are no multiple of {} pipeline ranks, which the "
                         "interleaved schedule needs",
                         micro_batches, s_.pipeline),
             fmt::format("give a multiple of {} sequences", at_once * s_.pipeline));
  }

  void check_switches() {
    if (s_.overlaps_parameters && !s_.distributed_optimizer)
      refuse("overlap-param-gather", "parameters are gathered by the distributed optimizer only",
             "give --use-distributed-optimizer, or leave --overlap-param-gather out");
    if (s_.overlaps_parameters && !s_.overlaps_gradients)
      refuse("overlap-param-gather", "it is given without --overlap-grad-reduce",
             "give --overlap-grad-reduce, too");
    if (s_.distributes_recomputed && (s_.tensor == 1 || s_.recompute != Recompute::full))
      refuse("distribute-saved-activations", "it needs tensor parallelism and full recomputation",
             "give --recompute-granularity full, or leave it out");
    if (s_.distributes_recomputed && s_.sequence_parallel)
      refuse("distribute-saved-activations",
             "sequence parallelism has the activations in parts already", "leave it out");
    if (s_.float8 != Float8::none && s_.parameters == Dtype::float32)
      leave("fp8-format", "FP8 beside parameters in float32", "give --bf16");
  }

  const Settings& s_;
  std::vector<Contradiction> found_;
};

}  // namespace

std::vector<Contradiction> contradictions(const Settings& settings, bool batch_too) {
  return Checker(settings).contradictions(batch_too);
}

std::string Origin::place_of(std::string_view flag) const {
  const auto found = places.find(flag);
  return found == places.end() ? otherwise : found->second;
}

void check(const Settings& settings, const Origin& origin, bool batch_too) {
  const std::vector<Contradiction> found = contradictions(settings, batch_too);
  if (found.empty()) return;
  const Contradiction& first = found.front();
  throw Error({.where = origin.place_of(first.flag), .what = first.what, .way_out = first.way_out});
}

}  // namespace shardscope::megatron
