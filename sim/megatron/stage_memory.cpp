#include "sim/megatron/stage_memory.h"

#include <algorithm>
#include <set>
#include <utility>

namespace shardscope::megatron {
namespace {

constexpr std::int64_t half = 2, single = 4;

/// Sizes of a rank's part of a micro-batch.
struct Sizes {
  explicit Sizes(const Settings& s)
      : tokens(s.micro_batch * s.shape.seq / s.context),
        tensor(s.tensor),
        norm_parts(s.sequence_parallel ? s.tensor : 1),
        hidden(s.shape.hidden),
        queries(s.shape.heads * s.shape.head_size / s.tensor),
        pairs(s.shape.kv_heads * s.shape.head_size / s.tensor),
        element(s.parameters == Dtype::float32 ? single : half),
        linear_input(s.float8 == Float8::none ? element : 1) {}

  /// Norms, dropout and residual sums: of a part of the tokens under sequence parallelism.
  Bytes by_tokens(std::int64_t columns, std::int64_t bytes) const {
    return Bytes{tokens * columns * bytes / norm_parts};
  }
  Bytes of_rank(std::int64_t columns, std::int64_t bytes) const {
    return Bytes{tokens * columns * bytes};
  }

  std::int64_t tokens, tensor, norm_parts, hidden, queries, pairs;
  std::int64_t element, linear_input;  ///< bytes
};

bool drops_out(const Settings& settings) { return settings.hidden_dropout > 0; }

/// Of attention's linear layers, of a rank.
std::int64_t attention_elements(const Settings& s) {
  const DecoderShape& shape = s.shape;
  const LatentShape& latents = shape.latents;
  if (latents.rank == 0) {
    const std::int64_t columns = (shape.heads + 2 * shape.kv_heads) * shape.head_size / s.tensor;
    const std::int64_t out = shape.heads * shape.head_size / s.tensor;
    return (columns + out) * shape.hidden + (s.biases ? columns + shape.hidden : 0);
  }
  const std::int64_t of_queries = shape.heads * (latents.plain + latents.rotary);
  const std::int64_t queries = latents.query_rank == 0
                                   ? shape.hidden * of_queries
                                   : latents.query_rank * (shape.hidden + of_queries + 1);
  return queries + shape.hidden * (latents.rank + latents.rotary) + latents.rank +
         latents.rank * shape.heads * (latents.plain + latents.value) +
         shape.heads * latents.value * shape.hidden;
}

std::int64_t feed_forward_elements(const Settings& s, std::int64_t inner, std::int64_t ranks) {
  const std::int64_t columns = (s.gated ? 2 : 1) * inner / ranks;
  return (columns + inner / ranks) * s.shape.hidden + (s.biases ? columns + s.shape.hidden : 0);
}

/// Of the adapters of a pair of linear layers, the first divided by columns, the second by rows:
/// the matrix of an adapter that is not divided is whole on every rank. Source: ms-swift 3.8.1,
/// swift/megatron/tuners/lora.py, LoraParallelLinear.update_layer.
std::int64_t adapter_elements(const Settings& s, std::int64_t columns, std::int64_t rows) {
  return s.adapters.rank * (s.shape.hidden + columns + rows + s.shape.hidden);
}

std::int64_t attention_adapters(const Settings& s) {
  const DecoderShape& shape = s.shape;
  return adapter_elements(s, (shape.heads + 2 * shape.kv_heads) * shape.head_size / s.tensor,
                          shape.heads * shape.head_size / s.tensor);
}

std::int64_t feed_forward_adapters(const Settings& s, std::int64_t inner, std::int64_t ranks) {
  return adapter_elements(s, (s.gated ? 2 : 1) * inner / ranks, inner / ranks);
}

std::int64_t norm_elements(const Settings& s) { return (s.layer_norm ? 2 : 1) * s.shape.hidden; }

/// Layers of a stage that have experts: the first ones of the model may have none.
std::int64_t expert_layers(const Settings& s, int stage) {
  if (s.shape.experts.experts == 0) return 0;
  const std::vector<int> layers = s.stage_layers();
  std::int64_t before = 0;
  for (int i = 0; i < stage; ++i) before += layers[static_cast<std::size_t>(i)];
  const std::int64_t own = layers[static_cast<std::size_t>(stage)];
  return own - std::clamp<std::int64_t>(s.shape.experts.dense_layers - before, 0, own);
}

std::int64_t layers_of(const Settings& s, int stage) {
  return s.stage_layers()[static_cast<std::size_t>(stage)];
}

/// Rows and columns of a weight.
using Shape = std::pair<std::int64_t, std::int64_t>;

void add_feed_forward(const Settings& s, std::int64_t inner, std::set<Shape>& shapes) {
  shapes.insert({(s.gated ? 2 : 1) * inner, s.shape.hidden});
  shapes.insert({s.shape.hidden, inner});
}

/// Of linear layers in blocks: with experts, without, or both.
std::set<Shape> weight_shapes(const Settings& s, bool dense, bool sparse) {
  const DecoderShape& shape = s.shape;
  const LatentShape& latents = shape.latents;
  std::set<Shape> shapes;
  if (latents.rank == 0) {
    shapes.insert({(shape.heads + 2 * shape.kv_heads) * shape.head_size / s.tensor, shape.hidden});
    shapes.insert({shape.hidden, shape.heads * shape.head_size / s.tensor});
  } else {
    const std::int64_t of_queries = shape.heads * (latents.plain + latents.rotary);
    if (latents.query_rank > 0) shapes.insert({latents.query_rank, shape.hidden});
    shapes.insert({of_queries, latents.query_rank > 0 ? latents.query_rank : shape.hidden});
    shapes.insert({latents.rank + latents.rotary, shape.hidden});
    shapes.insert({shape.heads * (latents.plain + latents.value), latents.rank});
    shapes.insert({shape.hidden, shape.heads * latents.value});
  }
  if (dense) add_feed_forward(s, shape.ffn / s.tensor, shapes);
  if (sparse) add_feed_forward(s, shape.experts.inner, shapes);
  if (sparse && shape.experts.shared > 0)
    add_feed_forward(s, shape.experts.shared * shape.experts.inner, shapes);
  return shapes;
}

Bytes largest(const std::set<Shape>& shapes, std::int64_t element) {
  std::int64_t most = 0;
  for (const auto& [rows, columns] : shapes) most = std::max(most, rows * columns);
  return Bytes{most * element};
}

Shape output_weight(const Settings& s) {
  return {s.padded_vocabulary() / s.tensor, s.shape.hidden};
}

/// What a layer keeps of attention.
void keep_attention(const Settings& s, const Sizes& n, std::vector<KeptTensor>& kept) {
  const std::int64_t rows = s.micro_batch * s.shape.heads / n.tensor;
  const std::int64_t length = s.shape.seq / s.context;
  kept.push_back({"input of the norm before attention", n.by_tokens(n.hidden, n.element)});
  kept.push_back({"input of queries, keys and values", n.by_tokens(n.hidden, n.linear_input)});
  const LatentShape& latents = s.shape.latents;
  std::int64_t out = n.queries;
  if (latents.rank > 0) {
    const std::int64_t heads = s.shape.heads;
    if (latents.query_rank > 0)
      kept.push_back({"latents of queries, before and behind their norm",
                      n.of_rank(2 * latents.query_rank, n.element)});
    kept.push_back({"latents of keys and values, before and behind their norm",
                    n.of_rank(2 * latents.rank + latents.rotary, n.element)});
    kept.push_back(
        {"queries and keys", n.of_rank(2 * heads * (latents.plain + latents.rotary), n.element)});
    kept.push_back({"output that values are a view of",
                    n.of_rank(heads * (latents.plain + latents.value), n.element)});
    out = heads * latents.value;
  } else {
    kept.push_back({"queries, keys and values", n.of_rank(n.queries + 2 * n.pairs, n.element)});
    if (s.positions == Positions::rotary)
      kept.push_back({"rotated queries and keys", n.of_rank(n.queries + n.pairs, n.element)});
  }
  if (s.attention == Attention::unfused) {
    const Bytes scores{rows * length * length * n.element};
    kept.push_back({"softmax", scores, true});
    if (s.attention_dropout > 0) {
      kept.push_back({"mask of dropout behind it", scores / n.element, true});
      kept.push_back({"what dropout left of it", scores, true});
    }
  } else {
    kept.push_back({"sums of the softmax", Bytes{rows * length * single}, true});
  }
  kept.push_back({"input of the output projection", n.of_rank(out, n.element)});
  if (n.linear_input < n.element)
    kept.push_back({"the same in 8 bits", n.of_rank(out, n.linear_input)});
  if (drops_out(s)) kept.push_back({"mask of dropout behind attention", n.by_tokens(n.hidden, 1)});
}

void keep_columns(const Settings& s, const Sizes& n, std::int64_t tokens, std::int64_t inner,
                  std::vector<KeptTensor>& kept) {
  kept.push_back(
      {"input of the activation", Bytes{tokens * (s.gated ? 2 : 1) * inner * n.element}});
  kept.push_back({"input of the second linear layer", Bytes{tokens * inner * n.linear_input}});
}

void keep_experts(const Settings& s, const Sizes& n, std::vector<KeptTensor>& kept) {
  const ExpertShape& experts = s.shape.experts;
  const std::int64_t rows = n.tokens * experts.chosen;
  kept.push_back({"input of router and experts", n.of_rank(n.hidden, n.element)});
  kept.push_back({"scores of the router", n.of_rank(experts.experts, single)});
  kept.push_back({"tokens in the order of experts", Bytes{rows * n.hidden * n.linear_input}});
  keep_columns(s, n, rows, experts.inner, kept);
  if (experts.shared > 0) keep_columns(s, n, n.tokens, experts.shared * experts.inner, kept);
}

/// Of the dropout before each adapter; what it left is the input that a frozen layer need not keep.
void keep_adapter_masks(const Settings& s, const Sizes& n, bool expert,
                        std::vector<KeptTensor>& kept) {
  kept.push_back({"masks of attention's adapters", n.of_rank(n.hidden + n.queries, 1)});
  const std::int64_t rows = expert ? n.tokens * s.shape.experts.chosen : n.tokens;
  const std::int64_t inner = expert ? s.shape.experts.inner : s.shape.ffn / n.tensor;
  kept.push_back({"masks of the feed-forward part's", Bytes{rows * (n.hidden + inner)}});
}

Bytes sum_of(const std::vector<KeptTensor>& kept, bool with_core) {
  Bytes sum;
  for (const KeptTensor& one : kept)
    if (with_core || !one.of_core_attention) sum += one.bytes;
  return sum;
}

/// Of gradients that live while a layer runs backward: those of the widest activation, of its
/// output and of the residual stream, and what sequence parallelism gathers for the products.
Bytes working_set(const Settings& s, const Sizes& n, bool expert) {
  const ExpertShape& experts = s.shape.experts;
  const std::int64_t gates = s.gated ? 2 : 1;
  const Bytes widest = expert ? Bytes{n.tokens * experts.chosen * gates * experts.inner * n.element}
                              : n.of_rank(gates * s.shape.ffn / n.tensor, n.element);
  const Bytes gathered = n.norm_parts > 1 ? n.of_rank(2 * n.hidden, n.element) : Bytes{};
  return widest + n.by_tokens(2 * n.hidden, n.element) + gathered;
}

/// What a layer keeps where whole layers are run again: its input.
Bytes layer_input(const Settings& s, const Sizes& n) {
  const Bytes input = n.by_tokens(n.hidden, n.element);
  const bool in_parts = s.distributes_recomputed && !s.sequence_parallel;
  return in_parts ? input / n.tensor : input;
}

/// The layers of a stage, with and without experts, and what they keep.
class StageLayers {
 public:
  StageLayers(const Settings& s, const Sizes& n, int stage)
      : s_(s),
        n_(n),
        with_experts_(expert_layers(s, stage)),
        dense_(layers_of(s, stage) - with_experts_) {
    const bool core = s.recompute == Recompute::none;
    dense_bytes_ = sum_of(kept_of_layer(s, false), core);
    if (with_experts_ > 0) expert_bytes_ = sum_of(kept_of_layer(s, true), core);
    // What is run again keeps all of it for a moment.
    again_ = std::max(dense_ > 0 ? sum_of(kept_of_layer(s, false), true) : Bytes{},
                      with_experts_ > 0 ? sum_of(kept_of_layer(s, true), true) : Bytes{});
  }

  Bytes kept() const {
    if (s_.recompute != Recompute::full)
      return dense_bytes_ * dense_ + expert_bytes_ * with_experts_;
    if (!s_.by_block) return layer_input(s_, n_) * units();
    // The first ones are run again; those behind them keep everything.
    const std::int64_t again = std::min(s_.recompute_layers, count());
    const std::int64_t dense_again = std::min(again, dense_);
    return layer_input(s_, n_) * again +
           sum_of(kept_of_layer(s_, false), true) * (dense_ - dense_again) +
           (with_experts_ > 0
                ? sum_of(kept_of_layer(s_, true), true) * (with_experts_ - (again - dense_again))
                : Bytes{});
  }

  Bytes in_backward() const {
    if (count() == 0) return {};
    Bytes working = std::max(dense_ > 0 ? working_set(s_, n_, false) : Bytes{},
                             with_experts_ > 0 ? working_set(s_, n_, true) : Bytes{});
    if (!s_.fused_accumulation)
      working += largest(weight_shapes(s_, dense_ > 0, with_experts_ > 0), n_.element);
    if (s_.recompute != Recompute::full) return working;
    const std::int64_t together = s_.by_block ? 1 : std::min(s_.recompute_layers, count());
    return working + again_ * together;
  }

 private:
  std::int64_t count() const { return dense_ + with_experts_; }
  std::int64_t units() const { return (count() + s_.recompute_layers - 1) / s_.recompute_layers; }

  const Settings& s_;
  const Sizes& n_;
  std::int64_t with_experts_, dense_;
  Bytes dense_bytes_, expert_bytes_, again_;
};

}  // namespace

HeldParameters held_parameters(const Settings& s, int stage) {
  HeldParameters held;
  const std::int64_t sparse = expert_layers(s, stage);
  const std::int64_t dense = layers_of(s, stage) - sparse;
  const std::int64_t attention = attention_elements(s);
  const ExpertShape& experts = s.shape.experts;
  const std::int64_t feed_forward = feed_forward_elements(s, s.shape.ffn, s.tensor);
  const std::int64_t of_experts =
      feed_forward_elements(s, experts.inner, 1) * (experts.experts / s.expert);
  const std::int64_t shared_expert =
      experts.shared > 0 ? feed_forward_elements(s, experts.shared * experts.inner, 1) : 0;
  const std::int64_t of_queries = s.norms_queries ? (s.layer_norm ? 4 : 2) * s.shape.head_size : 0;
  held.shared = (dense + sparse) * (attention + 2 * norm_elements(s) + of_queries) +
                dense * feed_forward + sparse * (shared_expert + experts.experts * s.shape.hidden);
  held.experts = sparse * of_experts;
  held.linear =
      (dense + sparse) * attention + dense * feed_forward + sparse * shared_expert + held.experts;
  const bool first = stage == 0;
  const bool last = stage + 1 == s.pipeline * s.stages_per_rank;
  const std::int64_t embedding = s.padded_vocabulary() / s.tensor * s.shape.hidden;
  if (first) held.shared += embedding + s.position_rows() * s.shape.hidden;
  if (last) held.shared += norm_elements(s) + (s.tied && first ? 0 : embedding);
  if (s.adapters.rank == 0) return held;
  held.adapters = (dense + sparse) * attention_adapters(s) +
                  dense * feed_forward_adapters(s, s.shape.ffn, s.tensor);
  if (experts.shared > 0)
    held.adapters += sparse * feed_forward_adapters(s, experts.shared * experts.inner, 1);
  held.expert_adapters =
      sparse * feed_forward_adapters(s, experts.inner, 1) * (experts.experts / s.expert);
  if (s.adapters.trains_embeddings)
    held.adapters += (first ? embedding : 0) + (last && !(s.tied && first) ? embedding : 0);
  return held;
}

std::vector<KeptTensor> kept_of_layer(const Settings& settings, bool expert) {
  const Sizes n(settings);
  std::vector<KeptTensor> kept;
  keep_attention(settings, n, kept);
  kept.push_back(
      {"input of the norm before the feed-forward part", n.by_tokens(n.hidden, n.element)});
  if (expert) {
    keep_experts(settings, n, kept);
  } else {
    kept.push_back({"input of the first linear layer", n.by_tokens(n.hidden, n.linear_input)});
    keep_columns(settings, n, n.tokens, settings.shape.ffn / n.tensor, kept);
  }
  if (drops_out(settings))
    kept.push_back({"mask of dropout behind the feed-forward part", n.by_tokens(n.hidden, 1)});
  if (settings.adapters.rank > 0) keep_adapter_masks(settings, n, expert, kept);
  return kept;
}

ChunkMemory chunk_memory(const Settings& settings, int stage) {
  const Sizes n(settings);
  const StageLayers layers(settings, n, stage);
  ChunkMemory memory{.kept = layers.kept(), .in_backward = layers.in_backward()};
  if (stage == 0 && drops_out(settings)) memory.kept += n.by_tokens(n.hidden, 1);
  if (n.norm_parts > 1) memory.in_forward = n.of_rank(n.hidden, n.element);
  if (stage + 1 < settings.pipeline * settings.stages_per_rank) return memory;
  const std::int64_t words = settings.padded_vocabulary() / settings.tensor;
  const Bytes norm_and_input = n.by_tokens(2 * n.hidden, n.element);
  if (!settings.fused_accumulation) memory.in_head = largest({output_weight(settings)}, n.element);
  if (settings.fused_loss) {
    // Logits become their gradients in place.
    memory.head = norm_and_input + n.of_rank(words, n.element);
    return memory;
  }
  memory.head = norm_and_input + n.of_rank(words, single);
  // Logits live beside the loss's softmax, and so do their gradients.
  memory.in_forward = std::max(memory.in_forward, n.of_rank(words, n.element));
  memory.in_head += n.of_rank(words, n.element);
  // Megatron-LM core_v0.12.2, fusions/fused_cross_entropy.py: what Inductor makes of
  // calculate_gradients copies the softmax first.
  if (settings.compiled_loss) memory.in_head += n.of_rank(words, single);
  return memory;
}

Bytes unread_gradients(const Settings& s, int rank) {
  if (!s.fused_accumulation || s.parameters == Dtype::float32) return {};
  bool dense = false, sparse = false, last = false;
  for (int chunk = 0; chunk < s.stages_per_rank; ++chunk) {
    const int stage = chunk * s.pipeline + rank;
    sparse = sparse || expert_layers(s, stage) > 0;
    dense = dense || layers_of(s, stage) > expert_layers(s, stage);
    last = last || stage + 1 == s.pipeline * s.stages_per_rank;
  }
  std::set<Shape> shapes;
  if ((dense || sparse) && s.adapters.rank == 0) shapes = weight_shapes(s, dense, sparse);
  if (last && (s.adapters.rank == 0 || s.adapters.trains_embeddings))
    shapes.insert(output_weight(s));
  Bytes sum;
  for (const auto& [rows, columns] : shapes) sum += Bytes{rows * columns * half};
  return sum;
}

StateBytes state_bytes(const Settings& s, int rank) {
  StateBytes bytes;
  const bool wide = s.parameters == Dtype::float32;
  const std::int64_t of_parameter = wide ? single : half;
  const std::int64_t of_states = wide ? 2 * single : 3 * single;
  const std::int64_t of_gradient = wide ? single : size_of(s.gradients).count;
  const std::int64_t shards = s.distributed_optimizer ? s.data_context() : 1;
  const std::int64_t expert_shards =
      s.distributed_optimizer ? std::max(1, s.data_context() / s.expert) : 1;
  for (int chunk = 0; chunk < s.stages_per_rank; ++chunk) {
    const HeldParameters held = held_parameters(s, chunk * s.pipeline + rank);
    const bool frozen = s.adapters.rank > 0;
    const std::int64_t trained = frozen ? held.adapters : held.shared;
    const std::int64_t trained_experts = frozen ? held.expert_adapters : held.experts;
    bytes.parameters +=
        Bytes{(held.shared + held.experts + held.adapters + held.expert_adapters) * of_parameter};
    bytes.gradients += Bytes{(trained + trained_experts) * of_gradient};
    if (!s.optimizer_on_host)
      bytes.optimizer +=
          Bytes{trained * of_states / shards + trained_experts * of_states / expert_shards};
    if (s.float8 != Float8::none) bytes.eight_bits += Bytes{2 * held.linear};
  }
  return bytes;
}

}  // namespace shardscope::megatron
