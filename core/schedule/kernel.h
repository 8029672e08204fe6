// The operators of the `native` implementation: what a device can be asked to run, with the cost of
// each. What a kernel of each kind holds and computes stands in kernel_structs.h.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>

#include "core/base/dtype.h"
#include "core/base/quantities.h"
#include "core/model/model.h"
#include "core/schedule/kernel_structs.h"

namespace shardscope {

/// In the order of KernelKind.
using KernelVariant =
    std::variant<EmbeddingForwardKernel, EmbeddingBackwardKernel, NormForwardKernel,
                 NormBackwardKernel, LinearForwardKernel, LinearBackwardInputKernel,
                 LinearBackwardWeightKernel, RopeTableKernel, RopeForwardKernel, RopeBackwardKernel,
                 AttentionForwardKernel, AttentionBackwardKernel, GeluForwardKernel,
                 GeluBackwardKernel, SwigluForwardKernel, SwigluBackwardKernel, CrossEntropyKernel,
                 CountTargetsKernel, SumOfSquaresKernel, ClipCoefficientKernel, AdamWKernel,
                 SgdKernel, AddKernel, FillZeroKernel>;

static_assert(std::variant_size_v<KernelVariant> == kernel_kind_count);
static_assert([]<std::size_t... i>(std::index_sequence<i...>) {
  return ((std::variant_alternative_t<i, KernelVariant>::kind == static_cast<KernelKind>(i)) &&
          ...);
}(std::make_index_sequence<kernel_kind_count>()));

template <class K, class Variant>
inline constexpr bool is_alternative_of = false;
template <class K, class... Alternatives>
inline constexpr bool is_alternative_of<K, std::variant<Alternatives...>> =
    (std::same_as<K, Alternatives> || ...);

/// The struct of a kind.
template <class K>
concept KernelStruct = is_alternative_of<K, KernelVariant>;

/// The three products of a linear layer.
template <class K>
concept LinearKernel = KernelStruct<K> && is_linear(K::kind);

/// The element type, float32 of kinds that know no other.
template <KernelStruct K>
constexpr Dtype dtype_of(const K& kernel) {
  if constexpr (requires { kernel.dtype; })
    return kernel.dtype;
  else
    return Dtype::float32;
}

/// Of parameter gradients, float32 of kinds that have none.
template <KernelStruct K>
constexpr Dtype gradient_dtype_of(const K& kernel) {
  if constexpr (requires { kernel.gradient_dtype; })
    return kernel.gradient_dtype;
  else
    return Dtype::float32;
}

/// One kernel call's static description, of any kind; equal descriptions cost the same.
class Kernel {
 public:
  constexpr Kernel() = default;
  template <KernelStruct K>
  constexpr Kernel(K kernel) : variant_(std::move(kernel)) {}  // NOLINT: implicit

  constexpr KernelKind kind() const { return static_cast<KernelKind>(variant_.index()); }
  Dtype dtype() const;

  /// Null where the kernel is of another kind.
  template <KernelStruct K>
  constexpr const K* get_if() const {
    return std::get_if<K>(&variant_);
  }
  /// A kernel of another kind is a broken invariant: the program aborts with a message.
  template <KernelStruct K>
  const K& get() const {
    if (const K* kernel = get_if<K>()) return *kernel;
    wrong_kind(K::kind);
  }

  /// Calls `visitor` with the struct of the kernel's kind.
  template <class Visitor>
  constexpr decltype(auto) visit(Visitor&& visitor) const {
    return std::visit(std::forward<Visitor>(visitor), variant_);
  }
  template <class Visitor>
  constexpr decltype(auto) visit(Visitor&& visitor) {
    return std::visit(std::forward<Visitor>(visitor), variant_);
  }

  bool operator==(const Kernel&) const = default;

 private:
  [[noreturn]] void wrong_kind(KernelKind wanted) const;

  KernelVariant variant_ = FillZeroKernel{};
};

/// What both passes of attention share; null of other kinds.
const AttentionKernel* attention_of(const Kernel& kernel);

/// The kernel of this kind with all fields as they are by default.
Kernel default_kernel(KernelKind kind);

/// Part of one parameter inside a rank's shard, for optimizer kernels. Starts lie on multiples of
/// 256 elements of the parameter, so that the pieces of the gradient norm are the same in every
/// sharding.
struct Slice {
  ParameterId parameter;
  std::int64_t offset = 0;  ///< elements from the start of the operand
  std::int64_t elements = 0;
  std::int64_t parameter_offset = 0;  ///< elements from the start of the parameter
  std::int64_t piece = 0;             ///< index of the slice's first piece in `pieces`
  bool decay = false;                 ///< weight decay applies
  /// clip_coefficient: pieces lie in runs of `piece_run`, `piece_stride` apart (one run a rank); 0:
  /// one run. Then `piece` is where the unit's first run starts, and `offset` counts from the start
  /// of the unit's flat storage.
  std::int64_t piece_run = 0;
  std::int64_t piece_stride = 0;

  /// Index of this slice's i-th piece.
  std::int64_t piece_index(std::int64_t i) const;
  bool operator==(const Slice&) const = default;
};
inline constexpr std::int64_t piece_elements = 256;

inline std::int64_t Slice::piece_index(std::int64_t i) const {
  if (piece_run == 0) return piece + i;
  const std::int64_t in_unit = offset / piece_elements + i;
  return piece + in_unit / piece_run * piece_stride + in_unit % piece_run;
}

/// What changes from step to step.
struct StepState {
  double learning_rate = 0;
  std::int64_t step = 1;  ///< AdamW's t, from 1
};

/// Floating-point operations of one call: 2 m n k for matrix products; attention counts the causal
/// half; others by element.
Flops flops_of(const Kernel& kernel);
/// Bytes that one call must read and write at least (every operand once).
Bytes bytes_of(const Kernel& kernel);

}  // namespace shardscope
