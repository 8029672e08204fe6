#include "core/schedule/device_work.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace shardscope {
namespace {

constexpr int work_kind_count = static_cast<int>(WorkKind::attention_backward) + 1;

constexpr std::array<std::string_view, work_kind_count> kind_names{"pointwise",
                                                                   "reduction",
                                                                   "norm_forward",
                                                                   "norm_backward",
                                                                   "softmax",
                                                                   "random",
                                                                   "gather",
                                                                   "scatter",
                                                                   "copy",
                                                                   "fill",
                                                                   "multi_tensor",
                                                                   "matmul",
                                                                   "attention_forward",
                                                                   "attention_backward"};

constexpr std::array<std::string_view, 7> library_names{"none",   "flash",  "efficient", "cudnn",
                                                        "flash1", "triton", "flash3"};

/// By KernelKind.
constexpr std::array<WorkKind, kernel_kind_count> work_kinds{
    WorkKind::gather,              // embedding_forward
    WorkKind::scatter,             // embedding_backward
    WorkKind::norm_forward,        // norm_forward
    WorkKind::norm_backward,       // norm_backward
    WorkKind::matmul,              // linear_forward
    WorkKind::matmul,              // linear_backward_input
    WorkKind::matmul,              // linear_backward_weight
    WorkKind::pointwise,           // rope_table
    WorkKind::pointwise,           // rope_forward
    WorkKind::pointwise,           // rope_backward
    WorkKind::attention_forward,   // attention_forward
    WorkKind::attention_backward,  // attention_backward
    WorkKind::pointwise,           // gelu_forward
    WorkKind::pointwise,           // gelu_backward
    WorkKind::pointwise,           // swiglu_forward
    WorkKind::pointwise,           // swiglu_backward
    WorkKind::softmax,             // cross_entropy
    WorkKind::reduction,           // count_targets
    WorkKind::reduction,           // sum_of_squares
    WorkKind::reduction,           // clip_coefficient
    WorkKind::multi_tensor,        // adamw
    WorkKind::multi_tensor,        // sgd
    WorkKind::pointwise,           // add
    WorkKind::fill,                // fill_zero
};

/// y [rows, out] = x [rows, in] W and the products of its backward, as rows x columns over depth.
MatmulShape matmul_of(const LinearForwardKernel& k) {
  return {.batch = 1, .m = k.rows, .n = k.out, .k = k.in};
}
MatmulShape matmul_of(const LinearBackwardInputKernel& k) {
  return {.batch = 1, .m = k.rows, .n = k.in, .k = k.out};
}
MatmulShape matmul_of(const LinearBackwardWeightKernel& k) {
  return {.batch = 1, .m = k.out, .n = k.in, .k = k.rows};
}

AttentionShape shape_of(const AttentionKernel& k) {
  return {.batch = k.batch,
          .heads = k.heads,
          .kv_heads = k.kv_heads,
          .queries = k.length,
          .keys = k.length,
          .head_dim = k.head_dim,
          .library = AttentionLibrary::flash,
          .causal = true};
}

/// For each head of each sequence.
std::int64_t scores_of(const AttentionShape& shape) {
  if (shape.pairs > 0) return shape.pairs;
  if (!shape.causal) return shape.queries * shape.keys;
  const std::int64_t seeing = std::min(shape.queries, shape.keys);
  return seeing * (shape.keys - seeing) + seeing * (seeing + 1) / 2;
}

/// FNV-1a, by words.
class Mixer {
 public:
  void add(std::initializer_list<std::int64_t> words) {
    for (const std::int64_t word : words) {
      value_ = (value_ ^ static_cast<std::uint64_t>(word)) * 0x100000001b3ull;
      value_ ^= value_ >> 29;
    }
  }
  std::size_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ull;
};

}  // namespace

std::string_view name_of(WorkKind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

std::string_view name_of(AttentionLibrary library) {
  return library_names[static_cast<std::size_t>(library)];
}

std::size_t DeviceWorkHash::operator()(const DeviceWork& w) const {
  Mixer mixer;  // what has the same bytes and flops is nearly always the same
  mixer.add({static_cast<std::int64_t>(w.kind), static_cast<std::int64_t>(w.dtype), w.launches,
             w.tensors, w.bytes.count, w.flops.count, w.matmul.m});
  return mixer.value();
}

Flops attention_flops(const AttentionShape& shape, bool backward) {
  return {scores_of(shape) * shape.batch * shape.heads * 2 * shape.head_dim * (backward ? 5 : 2)};
}

DeviceWork device_work(const Kernel& kernel) {
  DeviceWork work{.kind = work_kinds[static_cast<std::size_t>(kernel.kind())],
                  .dtype = kernel.dtype(),
                  .bytes = bytes_of(kernel),
                  .flops = flops_of(kernel)};
  kernel.visit([&]<class K>(const K& k) {
    if constexpr (LinearKernel<K>) work.matmul = matmul_of(k);
  });
  if (const AttentionKernel* attention = attention_of(kernel))
    work.attention = shape_of(*attention);
  return work;
}

}  // namespace shardscope
