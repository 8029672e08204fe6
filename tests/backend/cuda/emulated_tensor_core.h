// The tensor core instructions of a warp, from the registers of all its lanes. Layouts as in the
// PTX ISA, sections "Matrix fragments for mma.m16n8k16" and "ldmatrix", written down anew here: the
// kernels' own idea of them (backend/cuda/kernels/tensor_core.h) is what is tested.
#pragma once

#include <array>
#include <cstdint>

#include "backend/cuda/kernels/tensor_core.h"

namespace shardscope::test {

/// What one lane brings to a product.
struct ProductOperands {
  cuda::Matrices a;
  std::uint32_t b[2];
};

/// What one lane brings to a load of matrices: its row, and where that lies.
struct MatrixRow {
  Bfloat16 elements[cuda::chunk_elements];
  std::uintptr_t address;
};

/// Lanes of a warp, one every `stride` bytes.
template <class T>
struct Lanes {
  const std::byte* first;
  std::size_t stride;
  const T& operator[](int lane) const {
    return *reinterpret_cast<const T*>(first + static_cast<std::size_t>(lane) * stride);
  }
};

/// c += a b, of what `lane` holds.
void multiply_add(int lane, const Lanes<ProductOperands>& warp, cuda::Accumulator& c);

/// What `lane` gets of four matrices.
cuda::Matrices matrices_of(int lane, const Lanes<MatrixRow>& warp, bool transposed);

/// Times that a load must go to some bank of shared memory beyond once for each matrix.
int bank_conflicts(const Lanes<MatrixRow>& warp);

}  // namespace shardscope::test
