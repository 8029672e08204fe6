#include "tests/backend/cuda/emulated_tensor_core.h"

#include <algorithm>

namespace shardscope::test {
namespace {

float half_of(std::uint32_t word, int half) {
  return to_float(Bfloat16{static_cast<std::uint16_t>(half == 0 ? word : word >> 16)});
}

float element_of_a(const Lanes<ProductOperands>& warp, int row, int k) {
  const ProductOperands& lane = warp[row % 8 * 4 + k % 8 / 2];
  return half_of(lane.a.r[row / 8 + k / 8 * 2], k % 2);
}

float element_of_b(const Lanes<ProductOperands>& warp, int k, int column) {
  return half_of(warp[column * 4 + k % 8 / 2].b[k / 8], k % 2);
}

}  // namespace

void multiply_add(int lane, const Lanes<ProductOperands>& warp, cuda::Accumulator& c) {
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k)
      c.r[i] += element_of_a(warp, row, k) * element_of_b(warp, k, column);
  }
}

cuda::Matrices matrices_of(int lane, const Lanes<MatrixRow>& warp, bool transposed) {
  cuda::Matrices result{};
  for (int matrix = 0; matrix < 4; ++matrix) {
    const auto element = [&](int i) -> std::uint32_t {
      const int row = transposed ? lane % 4 * 2 + i : lane / 4;
      const int column = transposed ? lane / 4 : lane % 4 * 2 + i;
      return warp[matrix * 8 + row].elements[column].bits;
    };
    result.r[matrix] = element(0) | element(1) << 16;
  }
  return result;
}

int bank_conflicts(const Lanes<MatrixRow>& warp) {
  constexpr int groups = 8;  // of four banks, 16 bytes together
  int conflicts = 0;
  for (int matrix = 0; matrix < 4; ++matrix) {
    std::array<int, groups> rows{};
    for (int row = 0; row < 8; ++row) ++rows[warp[matrix * 8 + row].address / 16 % groups];
    conflicts += *std::max_element(rows.begin(), rows.end()) - 1;
  }
  return conflicts;
}

}  // namespace shardscope::test
