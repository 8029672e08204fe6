#include "sim/planner/torchtitan_floor.h"

#include <algorithm>
#include <tuple>

#include "core/pytorch/parallel/chunked_loss.h"
#include "core/pytorch/parallel/model_shape.h"
#include "sim/engine/clock_options.h"

namespace shardscope::planner {
namespace {

using eager::parallel::LlamaShape;

/// The product as a count, or 2^62 where it is more: a floor may be lower.
template <class... Factors>
std::int64_t floor_of_product(Factors... factors) {
  constexpr double most = 0x1p62;
  return static_cast<std::int64_t>(std::min((static_cast<double>(factors) * ...), most));
}

/// Of m x k by k x n, `batch` of them, by the better of two orders.
Duration product_time(const CostModel& costs, Dtype dtype, const MatmulShape& shape) {
  const auto time = [&](std::int64_t rows, std::int64_t columns) {
    const auto [batch, m, n, k] = std::tuple(shape.batch, shape.m, shape.n, shape.k);
    return costs.work_time({.kind = WorkKind::matmul,
                            .dtype = dtype,
                            .matmul = {.batch = batch, .m = rows, .n = columns, .k = k},
                            .bytes = bytes_of(batch * (m * k + k * n + m * n), dtype),
                            .flops = {floor_of_product(2, batch, m, n, k)}});
  };
  return std::min(time(shape.m, shape.n), time(shape.n, shape.m));
}

/// One direction of a block: its kernels, what they wait for, and the host that launches them.
struct Part {
  Duration computing, awaited, launching;
  Duration all() const { return computing + awaited; }
};

DeviceClockOptions clock_of(const HardwareProfile& profile) {
  Schedule recorded;
  recorded.memory = MemorySource::caching_allocator;
  return clock_options(recorded, profile);
}

class Floor {
 public:
  Floor(const Choice& choice, const TrialInputs& inputs)
      : choice_(choice),
        costs_(inputs.costs),
        shape_(eager::parallel::llama_shape(inputs.model)),
        length_(inputs.training.length),
        tensor_(tensor_ranks(choice)),
        context_(context_ranks(choice)),
        tokens_(choice.batch * length_ / context_),
        kv_(shape_.kv_heads * shape_.head_dim()),
        dtype_(plain_key(choice).parameters),
        compiled_(inputs.training.compiled),
        has_float8_(inputs.training.float8 != eager::parallel::Float8Recipe::none),
        clock_(clock_of(inputs.profile)) {}

  /// Run again, a block ends before its last product.
  Part forward(bool again = false) const {
    const std::int64_t width = shape_.dim, hidden = shape_.hidden / tensor_;
    const std::int64_t own = width / tensor_;
    const Duration products = linear(width, own) + linear(width, kv_ / tensor_) * 2 +
                              linear(own, width) + linear(width, hidden) * 2 +
                              (again ? Duration{} : linear(hidden, width));
    // silu reads and writes, its product reads two and writes one; norms; a sum.
    const Duration moving = moved(5 * hidden + (again ? 7 : 10) * own);
    return {.computing = products + attention(false) + moving + merged(20),
            .awaited = exchanged() * (again ? 3 : 4),
            .launching = launched(again ? clock_.backward_launch : clock_.launch, 15, 11)};
  }
  Part backward() const {
    const std::int64_t width = shape_.dim, hidden = shape_.hidden / tensor_;
    const std::int64_t own = width / tensor_;
    const Duration products = linear_backward(width, own) +
                              linear_backward(width, kv_ / tensor_) * 2 +
                              linear_backward(own, width) + linear_backward(width, hidden) * 2 +
                              linear_backward(hidden, width);
    const Duration moving = moved(9 * hidden + 12 * own);
    return {.computing = products + attention(true) + moving + merged(40),
            .awaited = exchanged() * 4,
            .launching = launched(clock_.backward_launch, 20, 6)};
  }

  Duration head_forward() const {
    return head(tokens_, shape_.vocab / tensor_, shape_.dim) + of_logits();
  }
  Duration head_backward() const {
    const std::int64_t columns = shape_.vocab / tensor_;
    return head(tokens_, shape_.dim, columns) + head(columns, shape_.dim, tokens_) + of_logits();
  }

  Bytes kept() const {
    if (has_float8_) return {};
    const std::int64_t width = shape_.dim;
    // Of gathered inputs nothing is claimed.
    const std::int64_t inputs = tensor_ == 1 ? 2 : 0;
    const std::int64_t each = is_compiled() ? 3 : 4;
    return bytes_of(
        tokens_ * (inputs * width + (each * width + 2 * kv_ + each * shape_.hidden) / tensor_),
        dtype_);
  }
  Bytes kept_checkpointed() const {
    return has_float8_ ? Bytes{} : bytes_of(tokens_ * shape_.dim / tensor_, dtype_);
  }
  Bytes of_loss() const {
    return compiled_ == CompileScope::blocks_and_loss || has_float8_ ? Bytes{}
                                                                     : Bytes{logits() * 8};
  }

  /// Of a block, counted from 0.
  bool is_checkpointed(std::int64_t block) const {
    return choice_.checkpointing.every > 0 && (block + 1) % choice_.checkpointing.every == 0;
  }
  /// What selective checkpointing runs again is not claimed.
  Part again() const { return choice_.checkpointing.selective ? Part{} : forward(true); }
  std::int64_t blocks() const { return shape_.layers; }

 private:
  std::int64_t logits() const { return tokens_ * shape_.vocab / tensor_; }

  bool is_compiled() const { return compiled_ != CompileScope::none; }

  Duration product(Dtype dtype, std::int64_t m, std::int64_t n, std::int64_t k) const {
    return product_time(costs_, dtype, {.batch = 1, .m = m, .n = n, .k = k});
  }
  /// Of a block.
  Duration product(std::int64_t m, std::int64_t n, std::int64_t k) const {
    return product(has_float8_ ? Dtype::uint8 : dtype_, m, n, k);
  }
  /// Of the output layer, which stays in the precision of the run.
  Duration head(std::int64_t m, std::int64_t n, std::int64_t k) const {
    return product(dtype_, m, n, k);
  }
  Duration of_logits() const {
    return compiled_ == CompileScope::blocks_and_loss || has_float8_
               ? Duration{}
               : moved_bytes(floor_of_product(logits(), 12));
  }
  /// Of a block's kernels, and of those that a step of a ring adds.
  Duration launched(Duration launch, std::int64_t kernels, std::int64_t of_step) const {
    if (is_compiled() || has_float8_) return {};
    return launch * (kernels + of_step * steps());
  }
  Duration linear(std::int64_t in, std::int64_t out) const { return product(tokens_, out, in); }
  Duration linear_backward(std::int64_t in, std::int64_t out) const {
    return product(tokens_, in, out) + product(out, in, tokens_);
  }

  /// Of the fastest library. A ring's kernels see the keys of one rank at a time.
  Duration attention(bool backward) const {
    AttentionShape shape{.batch = 1,
                         .heads = 1,
                         .kv_heads = shape_.heads / tensor_,
                         .queries = length_,
                         .keys = length_,
                         .head_dim = shape_.head_dim(),
                         .causal = true};
    const Flops flops{floor_of_product(attention_flops(shape, backward).count, choice_.batch,
                                       shape.kv_heads, 1.0 / static_cast<double>(context_))};
    shape.batch = choice_.batch;
    shape.heads = shape.kv_heads;
    shape.keys = length_ / context_;
    Duration least;
    for (const auto library :
         {AttentionLibrary::flash, AttentionLibrary::efficient, AttentionLibrary::cudnn}) {
      shape.library = library;
      const Duration time = costs_.work_time(
          {.kind = backward ? WorkKind::attention_backward : WorkKind::attention_forward,
           .dtype = dtype_,
           .attention = shape,
           .bytes = {},
           .flops = flops});
      least = least == Duration{} ? time : std::min(least, time);
    }
    return least;
  }

  Duration moved_bytes(std::int64_t bytes) const {
    return costs_.work_time(
        {.kind = WorkKind::pointwise, .dtype = dtype_, .bytes = {bytes}, .flops = {}});
  }
  /// Of each token so many elements.
  Duration moved(std::int64_t elements) const {
    if (is_compiled() || has_float8_) return {};
    return moved_bytes(floor_of_product(tokens_, elements, size_of(dtype_).count));
  }

  /// Of a ring, beside the first.
  std::int64_t steps() const { return context_ - 1; }
  /// What a step of a ring joins to those before: `bytes` of each element of the queries.
  Duration merged(std::int64_t bytes) const {
    if (is_compiled() || has_float8_) return {};
    return moved_bytes(floor_of_product(tokens_, shape_.dim / tensor_, bytes)) * steps();
  }

  /// A block's input gathered, or its output scattered.
  Duration exchanged() const {
    if (tensor_ == 1) return {};
    const Group group{.name = {}, .ranks = Ranks::spaced(0, 1, static_cast<std::size_t>(tensor_))};
    const Bytes payload = bytes_of(tokens_ * shape_.dim, has_float8_ ? Dtype::uint8 : dtype_);
    return std::min(costs_.collective_time(OperationKind::all_gather, payload, group),
                    costs_.collective_time(OperationKind::reduce_scatter, payload, group));
  }

  const Choice& choice_;
  const CostModel& costs_;
  LlamaShape shape_;
  std::int64_t length_;
  std::int64_t tensor_, context_;
  std::int64_t tokens_;  ///< of a rank
  std::int64_t kv_;      ///< columns of keys, and of values
  Dtype dtype_;
  CompileScope compiled_;
  bool has_float8_;
  DeviceClockOptions clock_;
};

/// A mixture's products alone, without those of attention over latents; experts have equally many
/// tokens.
class MixtureFloor {
 public:
  MixtureFloor(const Choice& choice, const TrialInputs& inputs)
      : choice_(choice),
        costs_(inputs.costs),
        shape_(eager::parallel::mixture_shape(inputs.model, inputs.config)),
        tokens_(choice.batch * inputs.training.length),
        dtype_(plain_key(choice).parameters) {}

  PlainStep step() const {
    const bool runs_again = choice_.checkpointing.every > 0 && !choice_.checkpointing.selective;
    const Duration block = of_block();
    const std::int64_t mixtures = shape_.layers - shape_.dense_layers;
    PlainStep step{.compute = block * mixtures * (runs_again ? 4 : 3) + of_head(),
                   .awaited = {},
                   .host = {},
                   .activations = of_loss()};
    step.activations += kept() * mixtures;
    return step;
  }

 private:
  Duration product(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k) const {
    return product_time(costs_, dtype_, {.batch = batch, .m = m, .n = n, .k = k});
  }
  /// The least of a product and of its two gradients.
  Duration least(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k) const {
    return std::min({product(batch, m, n, k), product(batch, m, k, n), product(batch, n, k, m)});
  }
  /// Three products, or two where GPT-OSS has gate and values in one (set_clamped_experts).
  Duration of_experts(std::int64_t here, std::int64_t rows) const {
    const Duration one = least(here, rows, shape_.hidden, shape_.dim);
    if (!shape_.has_sinks) return one * 3;
    return least(here, rows, 2 * shape_.hidden, shape_.dim) + one;
  }
  /// A forward's share of what forward and backward take.
  Duration of_block() const {
    const std::int64_t queries = shape_.heads * shape_.head_dim;
    const std::int64_t all = queries + 2 * shape_.kv_heads * shape_.head_dim;
    const std::int64_t here = shape_.experts / expert_ranks(choice_);
    const std::int64_t rows = tokens_ * shape_.top_k / here;
    const Duration experts = of_experts(here, rows);
    if (shape_.latent) return experts;
    return least(1, tokens_, all, shape_.dim) + least(1, tokens_, shape_.dim, queries) + experts;
  }
  /// In parts of the sequence, forward and backward.
  Duration of_head() const {
    constexpr std::int64_t parts = eager::parallel::usual_loss_parts;
    return least(1, tokens_ / parts, shape_.vocab, shape_.dim) * (3 * parts);
  }
  /// Of a block: its input, and without checkpointing queries, keys, values, what attention
  /// returns, and the experts' rows.
  Bytes kept() const {
    const std::int64_t experts = shape_.top_k * (shape_.dim + 3 * shape_.hidden);
    // Of latents nothing is claimed.
    const std::int64_t heads = 2 * (shape_.heads + shape_.kv_heads) * shape_.head_dim;
    const bool is_checkpointed = choice_.checkpointing.every > 0;
    return bytes_of(tokens_ * (shape_.dim + (is_checkpointed ? 0 : heads + experts)), dtype_);
  }
  Bytes of_loss() const {
    return bytes_of(tokens_ / eager::parallel::usual_loss_parts * shape_.vocab, Dtype::float32);
  }

  const Choice& choice_;
  const CostModel& costs_;
  eager::parallel::MixtureShape shape_;
  std::int64_t tokens_;  ///< of a rank
  Dtype dtype_;
};

}  // namespace

PlainStep torchtitan_floor(const Choice& choice, const TrialInputs& inputs) {
  if (has_experts(choice)) return MixtureFloor(choice, inputs).step();
  const Floor floor(choice, inputs);
  const Part forward = floor.forward(), backward = floor.backward(), again = floor.again();
  PlainStep step{.compute = floor.head_forward() + floor.head_backward(),
                 .awaited = {},
                 .host = {},
                 .activations = {}};
  const auto add = [&](const Part& part) {
    step.compute += part.all();
    step.awaited += part.awaited;
    step.host += part.launching;
  };
  for (std::int64_t block = 0; block < floor.blocks(); ++block) {
    const bool is_checkpointed = floor.is_checkpointed(block);
    add(forward);
    add(backward);
    if (is_checkpointed) add(again);
    step.activations += is_checkpointed ? floor.kept_checkpointed() : floor.kept();
  }
  step.activations += floor.of_loss();
  return step;
}

ModelCosts torchtitan_cost_floor(const Choice& choice, const TrialInputs& inputs) {
  const Floor floor(choice, inputs);
  const Duration forward = floor.forward().all(), backward = floor.backward().all();
  const Duration again = floor.again().all();
  ModelCosts costs{.embedding = {},
                   .head = {.time = {.forward = floor.head_forward(),
                                     .input_backward = floor.head_backward(),
                                     .weight_backward = {}},
                            .last_forward = {},
                            .kept = {}},
                   .blocks = {},
                   .launch = {},
                   .are_of_places = true};
  for (std::int64_t block = 0; block < floor.blocks(); ++block) {
    const bool is_checkpointed = floor.is_checkpointed(block);
    costs.blocks.push_back(
        {.time = {.forward = forward,
                  .input_backward = is_checkpointed ? backward + again : backward,
                  .weight_backward = {}},
         .last_forward = {},
         .kept = is_checkpointed ? floor.kept_checkpointed() : floor.kept()});
  }
  return costs;
}

}  // namespace shardscope::planner
