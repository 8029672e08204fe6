#include "core/config/megatron/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "core/base/error.h"

namespace shardscope::megatron {
namespace {

/// What cannot be: sizes beyond these are typing errors, and products of them would overflow.
constexpr std::int64_t most_ranks = 1 << 20, most_layers = 1 << 10, most_width = 1 << 20,
                       most_columns = 1 << 22, most_tokens_at_once = 1 << 24,
                       most_scores = std::int64_t{1} << 34, most_tokens = 1 << 26,
                       most_sequences = 1 << 24, most_experts = 1 << 14, most_heads = 1 << 14;

class Checker {
 public:
  Checker(const Settings& settings, std::string_view where) : s_(settings), where_(where) {}

  void check() const {
    check_ranks();
    check_sizes();
    check_tensor();
    check_context();
    check_pipeline();
    check_experts();
    check_batch();
    check_switches();
  }

 private:
  [[noreturn]] void refuse(std::string what, std::string way_out) const {
    throw Error({.where = where_, .what = std::move(what), .way_out = std::move(way_out)});
  }

  void in_range(std::string_view name, std::int64_t value, std::int64_t most,
                std::int64_t least = 1) const {
    if (value < least || value > most)
      refuse(fmt::format("{} is {}, expected {} to {}", name, value, least, most), "");
  }

  void check_sizes() const {
    const DecoderShape& shape = s_.shape;
    in_range("num_layers", shape.layers, most_layers);
    in_range("hidden_size", shape.hidden, most_width);
    in_range("num_attention_heads", shape.heads, most_heads);
    in_range("num_query_groups", shape.kv_heads, most_width);
    in_range("ffn_hidden_size", shape.ffn, most_width);
    in_range("kv_channels", shape.head_size, most_width);
    in_range("vocab_size", shape.vocabulary, most_tokens);
    in_range("seq_length", shape.seq, most_tokens);
    in_range("make_vocab_size_divisible_by", s_.vocabulary_multiple, most_tokens);
    in_range("micro_batch_size", s_.micro_batch, most_sequences);
    in_range("global_batch_size", s_.global_batch, most_sequences, 0);
    in_range("num_experts", shape.experts.experts, most_experts, 0);
    const LatentShape& latents = shape.latents;
    for (const auto& [name, size] :
         {std::pair("q_lora_rank", latents.query_rank), std::pair("kv_lora_rank", latents.rank),
          std::pair("qk_head_dim", latents.plain), std::pair("qk_pos_emb_head_dim", latents.rotary),
          std::pair("v_head_dim", latents.value)})
      in_range(name, size, most_width, 0);
    in_range("moe_shared_expert_intermediate_size / moe_ffn_hidden_size", shape.experts.shared,
             most_experts, 0);
    in_range("the first layers without experts", shape.experts.dense_layers, most_layers, 0);
    in_range("num_attention_heads x kv_channels", shape.heads * shape.head_size, most_columns);
    in_range("num_attention_heads x v_head_dim",
             shape.heads * (latents.plain + latents.rotary + latents.value), most_columns, 0);
    in_range("tokens of a micro-batch", s_.micro_batch * shape.seq, most_tokens_at_once);
    in_range("columns of a layer's experts", shape.experts.experts * shape.experts.inner,
             most_tokens_at_once, 0);
    if (s_.attention == Attention::unfused)
      in_range("scores of a head", shape.seq * shape.seq / s_.context, most_scores);
    if (shape.heads % shape.kv_heads != 0)
      refuse(fmt::format("{} attention heads are not a multiple of {} query groups", shape.heads,
                         shape.kv_heads),
             "give --num-query-groups that divides --num-attention-heads");
  }

  void check_ranks() const {
    for (const auto& [name, size] :
         {std::pair("tensor_model_parallel_size", s_.tensor),
          std::pair("pipeline_model_parallel_size", s_.pipeline),
          std::pair("context_parallel_size", s_.context),
          std::pair("expert_model_parallel_size", s_.expert), std::pair("world_size", s_.world)})
      in_range(name, size, most_ranks);
    const std::int64_t parts = std::int64_t{s_.tensor} * s_.pipeline * s_.context;
    if (s_.world % parts != 0)
      refuse(fmt::format("{} ranks are not a multiple of tensor {} x pipeline {} x context {} = {}",
                         s_.world, s_.tensor, s_.pipeline, s_.context, parts),
             fmt::format("give --world with a multiple of {}", parts));
  }

  void divides(std::int64_t count, std::string_view what, int ranks, std::string_view by,
               std::string_view size) const {
    if (count % ranks != 0)
      refuse(fmt::format("{} {} do not divide over {} {} ranks", count, what, ranks, by),
             fmt::format("give a {} that divides {}", size, count));
  }

  void check_tensor() const {
    constexpr std::string_view size = "--tensor-model-parallel-size (tensor in --mesh)";
    if (s_.sequence_parallel && s_.tensor == 1)
      refuse("sequence_parallel is given without tensor parallelism: Megatron-LM turns it off",
             "leave --sequence-parallel out, or give --tensor-model-parallel-size above 1");
    divides(s_.shape.heads, "attention heads", s_.tensor, "tensor-parallel", size);
    if (s_.shape.latents.rank == 0)
      divides(s_.shape.kv_heads, "query groups", s_.tensor, "tensor-parallel", size);
    divides(s_.shape.ffn, "feed-forward columns", s_.tensor, "tensor-parallel", size);
    if (s_.sequence_parallel)
      divides(s_.shape.seq / s_.context, "tokens of a rank's sequence", s_.tensor,
              "tensor-parallel", size);
    if (s_.overlaps_tensor && !s_.sequence_parallel)
      refuse("tp_comm_overlap is given without sequence parallelism",
             "give --sequence-parallel, or leave --tp-comm-overlap out");
  }

  void check_context() const {
    if (s_.context == 1) return;
    divides(s_.shape.seq, "tokens of a sequence (head and tail of each rank)", 2 * s_.context,
            "context-parallel half", "--context-parallel-size (context in --mesh)");
    if (s_.attention == Attention::unfused)
      refuse("context parallelism needs fused attention",
             "leave --transformer-impl local and --attention-backend unfused out");
  }

  void check_pipeline() const {
    in_range("virtual stages of a rank", s_.stages_per_rank, most_layers);
    if (s_.stages_per_rank > 1 && s_.pipeline == 1)
      refuse("virtual stages are given without a pipeline",
             "give --pipeline-model-parallel-size above 1");
    const std::int64_t counted =
        s_.shape.layers + (s_.embedding_as_layer ? 1 : 0) + (s_.loss_as_layer ? 1 : 0);
    const std::int64_t stages = std::int64_t{s_.pipeline} * s_.stages_per_rank;
    if (counted % stages != 0)
      refuse(fmt::format("{} layers do not divide over {} stages{}", counted, stages,
                         s_.stages_per_rank > 1
                             ? fmt::format(" ({} ranks of {})", s_.pipeline, s_.stages_per_rank)
                             : ""),
             fmt::format("give a number of stages that divides {}, or "
                         "--account-for-embedding-in-pipeline-split and "
                         "--account-for-loss-in-pipeline-split, which count a layer each",
                         counted));
  }

  void check_experts() const {
    const ExpertShape& experts = s_.shape.experts;
    if (experts.experts == 0) {
      if (s_.expert > 1)
        refuse(fmt::format("{} expert-parallel ranks, and the model has no experts", s_.expert),
               "give --num-experts, or leave expert parallelism out");
      return;
    }
    in_range("moe_router_topk", experts.chosen, experts.experts);
    in_range("moe_ffn_hidden_size", experts.inner, most_width);
    if (s_.tensor > 1)
      refuse("experts with tensor parallelism are not predicted",
             "give --tensor-model-parallel-size 1, and expert or pipeline parallelism instead");
    if (!s_.gated) refuse("experts without gated layers are not predicted", "give --swiglu");
    divides(experts.experts, "experts", s_.expert, "expert-parallel",
            "--expert-model-parallel-size (expert in --mesh)");
    divides(s_.data_context(), "data-parallel ranks", s_.expert, "expert-parallel",
            "--expert-model-parallel-size (expert in --mesh)");
  }

  void check_batch() const {
    if (s_.global_batch == 0) return;
    const std::int64_t at_once = s_.micro_batch * s_.data();
    if (s_.global_batch % at_once != 0)
      refuse(fmt::format("a batch of {} sequences is no multiple of micro-batches of {} on {} "
                         "data-parallel ranks",
                         s_.global_batch, s_.micro_batch, s_.data()),
             fmt::format("give --global-batch-size with a multiple of {}", at_once));
    if (s_.stages_per_rank > 1 && s_.micro_batches() % s_.pipeline != 0)
      refuse(fmt::format("{} micro-batches are no multiple of {} pipeline ranks, which the "
                         "interleaved schedule needs",
                         s_.micro_batches(), s_.pipeline),
             fmt::format("give a batch with a multiple of {} micro-batches", s_.pipeline));
  }

  void check_switches() const {
    if (s_.overlaps_parameters && !s_.distributed_optimizer)
      refuse("overlap_param_gather is given without the distributed optimizer",
             "give --use-distributed-optimizer");
    if (s_.overlaps_parameters && !s_.overlaps_gradients)
      refuse("overlap_param_gather is given without overlap_grad_reduce",
             "give --overlap-grad-reduce");
    if (s_.distributes_recomputed && (s_.tensor == 1 || s_.recompute != Recompute::full))
      refuse("distribute_saved_activations needs tensor parallelism and full recomputation",
             "give --recompute-granularity full, or leave it out");
    if (s_.recompute == Recompute::full)
      in_range("recompute_num_layers", s_.recompute_layers, most_layers);
    if (s_.float8 != Float8::none && s_.parameters == Dtype::float32)
      refuse("FP8 needs parameters of 16 bits", "give --bf16");
    const bool dense = s_.shape.heads * s_.shape.head_size == s_.shape.hidden;
    if (!s_.gated && !dense)
      refuse(fmt::format("{} heads of {} are not the hidden size of {}, which is predicted with "
                         "gated layers only",
                         s_.shape.heads, s_.shape.head_size, s_.shape.hidden),
             "give --swiglu, or leave --kv-channels out");
  }

  const Settings& s_;
  std::string where_;
};

}  // namespace

std::string_view name_of(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return "none";
    case Recompute::selective:
      return "selective";
    case Recompute::full:
      return "full";
  }
  return "?";
}

std::int64_t Settings::sequences() const {
  return global_batch > 0 ? global_batch : micro_batch * data();
}

std::int64_t Settings::micro_batches() const {
  return std::max<std::int64_t>(1, sequences() / (micro_batch * data()));
}

std::int64_t Settings::padded_vocabulary() const {
  const std::int64_t multiple = vocabulary_multiple * tensor;
  return (shape.vocabulary + multiple - 1) / multiple * multiple;
}

std::vector<int> Settings::stage_layers() const {
  const auto stages =
      static_cast<std::size_t>(pipeline) * static_cast<std::size_t>(stages_per_rank);
  const std::int64_t counted =
      shape.layers + (embedding_as_layer ? 1 : 0) + (loss_as_layer ? 1 : 0);
  std::vector<int> layers(stages, static_cast<int>(counted / static_cast<std::int64_t>(stages)));
  if (embedding_as_layer) --layers.front();
  if (loss_as_layer) --layers.back();
  return layers;
}

void check(const Settings& settings, std::string_view where) { Checker(settings, where).check(); }

}  // namespace shardscope::megatron
