#include "core/pytorch/engine/aten/matmul_out.h"

#include <cstdint>

#include "core/pytorch/engine/dispatch.h"

namespace shardscope::eager {
namespace {

std::int64_t flops_of(const Tensor& a, const Tensor& b) {
  return 2 * a.size(0) * a.size(1) * b.size(1);
}

}  // namespace

void mm_out(Session& s, const Tensor& a, const Tensor& b, const Tensor& out) {
  static constexpr Operator op{"aten.mm.out", OperatorKind::matmul};
  dispatched(s, op, {&a, &b}, {&out}, flops_of(a, b));
}

void addmm_out(Session& s, const Tensor& sum, const Tensor& a, const Tensor& b) {
  static constexpr Operator op{"aten.addmm.out", OperatorKind::matmul};
  dispatched(s, op, {&sum, &a, &b}, {&sum}, flops_of(a, b));
}

void addmm_(Session& s, const Tensor& sum, const Tensor& a, const Tensor& b) {
  static constexpr Operator op{"aten.addmm_.default", OperatorKind::matmul};
  dispatched(s, op, {&sum, &a, &b}, {&sum}, flops_of(a, b));
}

}  // namespace shardscope::eager
