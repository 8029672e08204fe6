// The heuristic by which bitsandbytes chooses its own 4-bit kernels. Every number is of
// bitsandbytes 0.50.2, backends/cuda/ops.py, _gemm_4bit_use_custom_cuda.
#include "core/pytorch/engine/adapters/quantized.h"
#include "core/pytorch/engine/kernel_scratch.h"

namespace shardscope::eager {
namespace {

struct Shape {
  std::int64_t rows, out, in, blocks, multiprocessors;
  /// Whether the output's tiles are at least `numerator` / `denominator` waves.
  bool waves(std::int64_t numerator, std::int64_t denominator = 1) const {
    return blocks * denominator >= multiprocessors * numerator;
  }
};

/// Less than 4 Mi elements: dequantising costs most.
bool of_small_weight(const Shape& p, int capability) {
  const bool hbm = capability == 80 || capability / 10 == 9;
  if (p.in * 2 < p.out) {
    if (hbm) {
      const bool low = !p.waves(1, 3);
      if (capability == 80) return p.rows <= (low ? 1536 : 512);
      return p.rows <= (low ? 512 : 320);
    }
    if (p.waves(1)) return p.rows <= 320;
    return p.rows <= (p.blocks * p.in > p.multiprocessors * 320 ? 192 : 320);
  }
  const bool quarter = p.blocks * 4 <= p.multiprocessors;
  if (capability == 80 && quarter) {
    if (p.in >= p.out) return p.rows <= (p.blocks * 8 <= p.multiprocessors ? 32 : 128);
    return p.rows <= 384;
  }
  if (quarter) return p.rows <= (p.in < p.out || hbm ? 32 : 23);
  return p.blocks * 2 <= p.multiprocessors && p.rows <= 16;
}

bool of_few_rows(const Shape& p, int capability) {
  const bool hopper = capability / 10 == 9;
  if ((capability != 80 && !hopper) || p.rows < 6 || p.blocks < (hopper ? 36 : 48)) return true;
  const bool below_three_quarters = !p.waves(3, 4);
  const bool below_three_fifths = !p.waves(3, 5);
  if (p.in > p.out && below_three_quarters) return false;
  if (p.in != p.out) return true;
  return capability == 80 ? !below_three_fifths : !below_three_quarters || below_three_fifths;
}

bool on_a100(const Shape& p) {
  if (p.waves(3)) return p.rows <= 128;
  if (p.waves(1)) return p.rows <= (p.in < p.out ? 64 : 32);
  if (p.in >= p.out * 3 && p.blocks * 4 > p.multiprocessors) return false;
  if (p.in == p.out && p.blocks >= 48 && !p.waves(3, 5)) return false;
  if (p.blocks * 2 < p.multiprocessors) {
    if (p.in <= p.out) return p.rows <= 128;
    if (p.waves(1, 3)) return false;
  }
  if (p.blocks >= p.multiprocessors / 2 && p.in < p.out) return p.rows <= 128;
  return p.rows <= 16;
}

bool on_a10(const Shape& p) {
  if (p.waves(1)) return p.rows <= 128;
  return p.rows <= (p.blocks >= p.multiprocessors / 2 ? 64 : 16);
}

bool on_hopper(const Shape& p) {
  if (p.waves(3)) return p.rows <= 64;
  if (p.waves(2)) return p.rows <= 48;
  if (p.waves(1)) return p.rows <= 32;
  if (p.blocks < p.multiprocessors / 2) return false;
  return !(p.in >= p.out && !p.waves(3, 4)) && p.rows <= 16;
}

bool on_others(const Shape& p) {
  const bool tall = p.in > p.out * 2;
  if (p.waves(3)) return p.rows <= 256;
  if (p.waves(2)) return p.rows <= 128;
  if (p.waves(4, 5)) {
    if (tall || p.blocks >= 200) return p.rows <= 128;
    if (p.in >= p.out) return p.rows <= (p.multiprocessors >= 60 ? 128 : 32);
    return p.rows <= 64;
  }
  if (p.blocks >= p.multiprocessors / 2) {
    if (tall) return p.rows <= 64;
    return p.rows <= (p.blocks >= 64 ? 8 : 32);
  }
  if (p.in > p.out && p.blocks <= 48) return p.rows <= (p.in >= p.out * 3 ? 12 : 10);
  return p.rows <= (tall || p.blocks < 48 ? 16 : 8);
}

}  // namespace

bool uses_own_kernel(const Gemm4bit& product) {
  constexpr std::int64_t most_rows = 1536, always = 4, block = 64;
  constexpr std::int64_t small_elements = std::int64_t{4} << 20;
  if (product.rows > most_rows || product.in % block != 0) return false;
  if (product.rows <= always) return true;
  const int capability = product.compute_capability;
  if (product.dtype == Dtype::float32 || capability < 80) return product.rows < 8;
  const Shape p{.rows = product.rows,
                .out = product.out,
                .in = product.in,
                .blocks = (product.out + 63) / 64,
                .multiprocessors = kernel_device(capability).multiprocessors};
  if (capability == 87 || capability / 10 == 11) return false;
  if (capability / 10 == 10) {
    if (p.waves(3)) return p.rows <= 32;
    return p.waves(1) && p.in < p.out && p.rows <= 8;
  }
  if (p.out * p.in < small_elements) return of_small_weight(p, capability);
  if (p.rows > 512) return false;
  if (p.rows < 8) return of_few_rows(p, capability);
  if (capability == 80) return on_a100(p);
  if (capability == 86) return on_a10(p);
  return capability / 10 == 9 ? on_hopper(p) : on_others(p);
}

}  // namespace shardscope::eager
