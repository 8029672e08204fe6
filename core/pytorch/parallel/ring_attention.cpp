#include "core/pytorch/parallel/ring_attention.h"

#include <optional>

#include "core/pytorch/engine/aten/attention.h"
#include "core/pytorch/engine/copies.h"
#include "core/pytorch/engine/dispatch.h"
#include "core/pytorch/engine/pointwise.h"
#include "core/pytorch/engine/views.h"

namespace shardscope::eager::parallel {
namespace {

constexpr int sequence_dim = 2;

/// Ranks of a ring, and what each step of it computes.
struct Ring {
  MeshAxisContext axis;
  RingSettings settings;
  int size() const { return axis.group->size(); }
  int rank() const { return axis.group->rank; }
  /// Without load balance nothing that comes from a later rank is seen.
  bool skips(int step) const { return step > rank() && !settings.load_balance; }
  bool whole(int step) const { return step == 0 || !settings.load_balance; }
  /// Only the tail of the queries sees keys of a later rank.
  bool tail_only(int step) const { return !whole(step) && step > rank(); }
};

/// _RingRotater.
class Rotater {
 public:
  Rotater(Session& s, const MeshAxisContext& axis, RotateMethod method)
      : s_(s), axis_(axis), method_(method) {}

  void exchange(const Tensor& buffer) {
    ++step_;
    if (method_ == RotateMethod::all_to_all)
      buffer_ = all_to_all(s_, *axis_.pending, *axis_.group, buffer);
    else if (!buffer_.defined())
      buffer_ = all_gather(s_, *axis_.pending, *axis_.group, buffer, 0);
  }

  Tensor next() {
    axis_.pending->wait(s_, buffer_);
    if (method_ == RotateMethod::all_to_all) return buffer_;
    const int ranks = axis_.group->size();
    const int from = (axis_.group->rank - step_ + ranks) % ranks;
    return chunk(s_, buffer_, ranks, 0)[static_cast<std::size_t>(from)];
  }

 private:
  Session& s_;
  MeshAxisContext axis_;
  RotateMethod method_;
  Tensor buffer_;
  int step_ = 0;
};

Tensor flat_pair(Session& s, const Tensor& first, const Tensor& second) {
  return cat(s, {flatten(s, first), flatten(s, second)}, 0);
}

/// The pair in a flat buffer, one of them, of the given sizes.
Tensor first_of(Session& s, const Tensor& pair, const Tensor& like_this) {
  return reshape(s, slice(s, pair, 0, 0, like_this.numel()), like_this.sizes());
}
Tensor second_of(Session& s, const Tensor& pair, const Tensor& like_this) {
  return reshape(s, slice(s, pair, 0, like_this.numel()), like_this.sizes());
}

Tensor head_of(Session& s, const Tensor& tensor) { return chunk(s, tensor, 2, sequence_dim)[0]; }
Tensor tail_of(Session& s, const Tensor& tensor) { return chunk(s, tensor, 2, sequence_dim)[1]; }

/// _partial_update: one half replaced, or added to, in a new tensor.
Tensor with_half(Session& s, const Tensor& original, const Tensor& update, std::size_t half,
                 bool adds) {
  Tensors halves = chunk(s, original, 2, sequence_dim);
  if (adds)
    add_(s, halves[half], update);
  else
    halves[half] = update;
  return cat(s, std::move(halves), sequence_dim);
}

Tensor log_sigmoid(Session& s, const Tensor& self) {
  static constexpr Operator op{"aten.log_sigmoid_forward.default", OperatorKind::pointwise};
  Tensor result = allocate_like(s, self, self.dtype());
  dispatched(s, op, {&self}, {&result});
  return result;
}

/// _SDPAMerger, in float32.
class Merger {
 public:
  void step(Session& s, const Tensor& output, const Tensor& logsumexp, bool tail) {
    output_dtype_ = output.dtype();
    const Tensor wide = to(s, output, Dtype::float32);
    merge(s, wide, unsqueeze(s, logsumexp, -1), tail);
  }
  Tensor output(Session& s) const { return to(s, output_, output_dtype_); }
  Tensor logsumexp(Session& s) const { return squeeze(s, logsumexp_, -1); }

 private:
  void merge(Session& s, const Tensor& block, const Tensor& block_logsumexp, bool tail) {
    if (!output_.defined()) {
      logsumexp_ = block_logsumexp;
      output_ = block;
      return;
    }
    Tensor logsumexp = tail ? tail_of(s, logsumexp_) : logsumexp_;
    Tensor output = tail ? tail_of(s, output_) : output_;
    {
      Tensor weight = sigmoid(s, sub(s, block_logsumexp, logsumexp));
      Tensor difference = sub(s, output, block);
      Tensor change = mul(s, std::move(weight), std::move(difference));
      output = sub(s, output, std::move(change));
    }
    {
      const Tensor difference = sub(s, logsumexp, block_logsumexp);
      Tensor change = log_sigmoid(s, difference);
      logsumexp = sub(s, logsumexp, std::move(change));
    }
    logsumexp_ = tail ? with_half(s, logsumexp_, logsumexp, 1, false) : logsumexp;
    output_ = tail ? with_half(s, output_, output, 1, false) : output;
  }

  Tensor output_, logsumexp_;
  Dtype output_dtype_ = Dtype::float32;
};

AttentionArguments arguments_of(const Tensor& query, const Tensor& key, const Tensor& value,
                                bool causal) {
  AttentionArguments arguments;
  arguments.query = query;
  arguments.key = key;
  arguments.value = value;
  arguments.causal = causal;
  return arguments;
}

/// _templated_ring_attention. Names live as long as Python's do.
FusedAttention ring_forward(Session& s, const Ring& ring, AttentionKernel kernel,
                            const Tensor& query, Tensor key, Tensor value) {
  key = contiguous(s, std::move(key));
  value = contiguous(s, std::move(value));
  Merger merger;
  Rotater rotater(s, ring.axis, ring.settings.rotate);
  std::optional<Tensors> saved_rest;
  FusedAttention block;
  AttentionArguments used;
  for (int i = 0; i < ring.size(); ++i) {
    Tensor next;
    if (i > 0) {
      next = rotater.next();
      key = first_of(s, next, key);
      value = second_of(s, next, value);
    }
    if (i < ring.size() - 1) {
      next = flat_pair(s, key, value);
      rotater.exchange(next);
      next.reset();
    }
    if (ring.skips(i)) continue;
    if (ring.whole(i))
      used = arguments_of(query, key, value, i == 0);
    else if (!ring.tail_only(i))
      used = arguments_of(query, head_of(s, key), head_of(s, value), false);
    else
      used = arguments_of(tail_of(s, query), key, value, false);
    block = fused_attention(s, kernel, used);
    if (!saved_rest) saved_rest = block.rest;
    merger.step(s, block.output, block.logsumexp, ring.tail_only(i));
  }
  return {.output = merger.output(s), .logsumexp = merger.logsumexp(s), .rest = *saved_rest};
}

/// What ring_backward adds up.
struct RingGradients {
  Tensor query, key, value;
};

/// Of one step: queries, keys and values as forward used them, and the parts of what came out.
struct BackwardStep {
  AttentionArguments used;
  Tensor gradient;
  FusedAttention forward;
};

BackwardStep backward_step(Session& s, const Ring& ring, int i, const AttentionArguments& now,
                           const Tensor& gradient, const FusedAttention& forward) {
  if (ring.whole(i)) return {now, gradient, forward};
  if (!ring.tail_only(i))
    return {arguments_of(now.query, head_of(s, now.key), head_of(s, now.value), false), gradient,
            forward};
  FusedAttention tails = forward;
  tails.output = tail_of(s, forward.output);
  tails.logsumexp = contiguous(s, tail_of(s, forward.logsumexp));
  return {arguments_of(tail_of(s, now.query), now.key, now.value, false), tail_of(s, gradient),
          tails};
}

/// _templated_ring_attention_backward. Names live as long as Python's do.
Tensors ring_backward(Session& s, const Ring& ring, AttentionKernel kernel, const Tensor& gradient,
                      const AttentionArguments& given, const FusedAttention& forward) {
  const Like wide = like(given.query, Dtype::float32);
  const auto zeros_wide = [&](const Tensor& of) {
    return zero_(s, allocate_strided(s, wide, of.sizes(), preserved_strides(of)));
  };
  RingGradients sums{zeros_wide(given.query), zeros_wide(given.key), zeros_wide(given.value)};
  Tensor key = contiguous(s, given.key), value = contiguous(s, given.value);
  Rotater pairs(s, ring.axis, ring.settings.rotate);
  Rotater gradients(s, ring.axis, RotateMethod::all_to_all);
  Tensor buffer, next_pair, next_gradients;
  BackwardStep step;
  Tensors parts;
  for (int i = 0; i < ring.size(); ++i) {
    if (i > 0) {
      buffer = pairs.next();
      key = first_of(s, buffer, key);
      value = second_of(s, buffer, value);
    }
    if (i != ring.size() - 1) {
      next_pair = flat_pair(s, key, value);
      pairs.exchange(next_pair);
    }
    if (ring.skips(i)) {
      parts = {zeros_wide(given.query), zeros_wide(key), zeros_wide(value)};
    } else {
      step = backward_step(s, ring, i, arguments_of(given.query, key, value, i == 0), gradient,
                           forward);
      parts = fused_attention_backward(s, kernel, step.gradient, step.used, step.forward);
    }
    if (i == 0) {
      add_(s, sums.key, parts[1]);
      add_(s, sums.value, parts[2]);
    } else {
      next_gradients = gradients.next();
      sums.key = first_of(s, next_gradients, sums.key);
      sums.value = second_of(s, next_gradients, sums.value);
      if (i <= ring.rank() && ring.settings.load_balance) {
        sums.key = with_half(s, sums.key, parts[1], 0, true);
        sums.value = with_half(s, sums.value, parts[2], 0, true);
      } else {
        add_(s, sums.key, parts[1]);
        add_(s, sums.value, parts[2]);
      }
    }
    next_gradients = flat_pair(s, sums.key, sums.value);
    gradients.exchange(next_gradients);
    if (i <= ring.rank() || !ring.settings.load_balance)
      add_(s, sums.query, parts[0]);
    else
      sums.query = with_half(s, sums.query, parts[0], 1, true);
  }
  sums.query = to(s, sums.query, given.query.dtype());
  next_gradients = to(s, gradients.next(), key.dtype());
  sums.key = first_of(s, next_gradients, sums.key);
  sums.value = second_of(s, next_gradients, sums.value);
  return {sums.query, sums.key, sums.value};
}

}  // namespace

Tensor ring_attention(Session& s, const MeshAxisContext& axis, const RingSettings& settings,
                      Tensor query, Tensor key, Tensor value) {
  const LetGo let_go{query, key, value};
  const Ring ring{axis, settings};
  const AttentionArguments given = arguments_of(query, key, value, true);
  const AttentionKernel kernel = choose_attention_kernel(s, given);
  return apply_function(
      s, "ScaledDotProductFlashAttentionBackward0", {query, key, value},
      [&](Session& in, const NodeRef& node) -> Tensors {
        if (node) {
          node->save(in, "query", query);
          node->save(in, "key", key);
          node->save(in, "value", value);
        }
        const FusedAttention result = ring_forward(in, ring, kernel, query, key, value);
        if (node) {
          node->save(in, "output",
                     alias_of(result.output, result.output.sizes(), result.output.strides(), 0));
          node->save(in, "logsumexp", result.logsumexp);
          node->save(in, "rng_state", result.rest[0]);
          node->save(in, "unused", result.rest[1]);
        }
        return {result.output};
      },
      [ring, kernel](Session& in, Node& node, Tensors& gradients) -> Tensors {
        const FusedAttention forward{
            .output = node.saved(in, "output"),
            .logsumexp = node.saved(in, "logsumexp"),
            .rest = {node.saved(in, "rng_state"), node.saved(in, "unused")}};
        return ring_backward(in, ring, kernel, gradients[0],
                             arguments_of(node.saved(in, "query"), node.saved(in, "key"),
                                          node.saved(in, "value"), true),
                             forward);
      })[0];
}

namespace {

/// The rank's part of a buffer along a dimension, rearranged by the indices if any.
Tensor shard_of(Session& s, const MeshAxisContext& axis, const Tensor& buffer,
                const Tensor& indices, int dim) {
  static constexpr Operator gather_op{"aten.gather.default", OperatorKind::indexing};
  Tensor arranged = buffer;
  if (indices.defined()) {
    arranged = allocate(s, like(buffer), buffer.sizes());
    dispatched(s, gather_op, {&buffer, &indices}, {&arranged});
  }
  const auto own = static_cast<std::size_t>(axis.group->rank);
  return clone_contiguous(s, chunk(s, arranged, axis.group->size(), dim)[own]);
}

/// Tensor.resize_ to a smaller shape: the storage stays.
Tensor shrunk(const Tensor& tensor, const Dims& sizes) {
  return alias_of(tensor, sizes, contiguous_strides(sizes), 0);
}

}  // namespace

ContextParallelScope::ContextParallelScope(Session& s, const MeshAxisContext& axis,
                                           const RingSettings& settings, Tensors inputs,
                                           std::vector<Tensor*> buffers)
    : buffers_(std::move(buffers)) {
  const NoGrad no_grad(s);
  for (const Tensor* buffer : buffers_) {
    originals_.push_back(clone(s, *buffer));
    whole_.push_back(*buffer);
  }
  {
    Tensor indices;
    if (settings.load_balance)
      indices = arange(s, inputs[0].size(1), like(inputs[0], Dtype::int32));
    for (const Tensor& input : inputs) shards_.push_back(shard_of(s, axis, input, indices, 1));
    for (const Tensor* buffer : buffers_) shards_.push_back(shard_of(s, axis, *buffer, indices, 0));
  }
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    last_ = clone(s, shards_[i]);
    const Tensor& whole = i < inputs.size() ? inputs[i] : *buffers_[i - inputs.size()];
    const Tensor part = shrunk(whole, last_.sizes());
    copy_(s, part, last_);
    if (i < inputs.size())
      inputs_.push_back(part);
    else
      *buffers_[i - inputs.size()] = part;
  }
}

ContextParallelScope::~ContextParallelScope() {
  for (std::size_t i = 0; i < buffers_.size(); ++i) *buffers_[i] = whole_[i];
}

}  // namespace shardscope::eager::parallel
