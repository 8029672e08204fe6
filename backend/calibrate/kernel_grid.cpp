#include "backend/calibrate/kernel_grid.h"

#include <cmath>

namespace shardscope {
namespace {

struct Weight {
  std::int64_t in = 0;
  std::int64_t out = 0;
};
constexpr Weight weights[] = {{128, 128}, {384, 1536}, {1536, 384}, {1024, 1024}, {768, 3072}};
constexpr std::int64_t row_counts[] = {64, 512, 2048};
constexpr double largest_product_flops = 5e9;

void add_products(std::vector<Kernel>& grid) {
  for (const WeightLayout layout : {WeightLayout::in_out, WeightLayout::out_in})
    for (const KernelKind kind : {KernelKind::linear_forward, KernelKind::linear_backward_input,
                                  KernelKind::linear_backward_weight})
      for (const Weight weight : weights)
        for (const std::int64_t rows : row_counts) {
          const Kernel kernel{
              .kind = kind, .layout = layout, .rows = rows, .in = weight.in, .out = weight.out};
          if (static_cast<double>(flops_of(kernel).count) <= largest_product_flops)
            grid.push_back(kernel);
        }
}

Kernel heads_of(KernelKind kind, std::int64_t batch, std::int64_t length) {
  constexpr std::int64_t heads = 4;
  constexpr std::int64_t head_dim = 64;
  return {.kind = kind,
          .rows = batch * length,
          .batch = batch,
          .length = length,
          .heads = heads,
          .kv_heads = heads,
          .head_dim = head_dim,
          .q_stride = heads * head_dim,
          .kv_stride = heads * head_dim,
          .scale = 1 / std::sqrt(static_cast<double>(head_dim))};
}

void add_attention(std::vector<Kernel>& grid) {
  for (const std::int64_t length : {64, 256, 1024})
    for (const KernelKind kind : {KernelKind::attention_forward, KernelKind::attention_backward})
      grid.push_back(heads_of(kind, 2048 / length, length));
  for (const std::int64_t batch : {1, 8})
    for (const KernelKind kind : {KernelKind::rope_forward, KernelKind::rope_backward})
      grid.push_back(heads_of(kind, batch, 256));
}

void add_activations(std::vector<Kernel>& grid) {
  for (const std::int64_t rows : {256, 2048}) {
    for (const KernelKind kind : {KernelKind::norm_forward, KernelKind::norm_backward})
      for (const NormKind norm : {NormKind::layer_norm, NormKind::rms_norm})
        grid.push_back({.kind = kind,
                        .norm = norm,
                        .has_bias = norm == NormKind::layer_norm,
                        .rows = rows,
                        .in = 512,
                        .epsilon = 1e-5});
    for (const KernelKind kind : {KernelKind::gelu_forward, KernelKind::gelu_backward,
                                  KernelKind::swiglu_forward, KernelKind::swiglu_backward})
      grid.push_back({.kind = kind, .rows = rows, .in = 1536});
    for (const KernelKind kind : {KernelKind::embedding_forward, KernelKind::embedding_backward})
      grid.push_back({.kind = kind,
                      .rows = rows,
                      .in = 512,
                      .out = 256,
                      .batch = rows / 256,
                      .length = 256,
                      .positions = 256});
    grid.push_back({.kind = KernelKind::cross_entropy, .rows = rows, .out = 256});
  }
  grid.push_back({.kind = KernelKind::cross_entropy, .rows = 128, .out = 50257});
}

void add_flat(std::vector<Kernel>& grid) {
  for (const std::int64_t elements : {1 << 16, 1 << 20, 1 << 23}) {
    for (const KernelKind kind :
         {KernelKind::sum_of_squares, KernelKind::add, KernelKind::fill_zero})
      grid.push_back({.kind = kind, .elements = elements});
    grid.push_back({.kind = KernelKind::adamw,
                    .has_clip = true,
                    .elements = elements,
                    .epsilon = 1e-8,
                    .beta1 = 0.9,
                    .beta2 = 0.95,
                    .weight_decay = 0.1});
    grid.push_back({.kind = KernelKind::sgd, .has_clip = true, .elements = elements, .beta1 = 0.9});
  }
  for (const std::int64_t pieces : {1 << 10, 1 << 16})
    grid.push_back({.kind = KernelKind::clip_coefficient, .elements = pieces, .clip = 1});
}

}  // namespace

namespace {

Kernel in_precision(Kernel kernel, const PrecisionDtypes& dtypes) {
  switch (kernel.kind) {
    case KernelKind::adamw:
    case KernelKind::sgd:
      kernel.dtype = dtypes.updated;
      kernel.gradient_dtype = dtypes.gradients;
      kernel.has_copy = dtypes.has_master();
      return kernel;
    case KernelKind::add:
    case KernelKind::fill_zero:
      kernel.dtype = dtypes.gradients;
      return kernel;
    case KernelKind::sum_of_squares:
      kernel.gradient_dtype = dtypes.gradients;
      return kernel;
    case KernelKind::clip_coefficient:
      return kernel;
    case KernelKind::embedding_backward:
    case KernelKind::norm_backward:
    case KernelKind::linear_backward_weight:
      kernel.gradient_dtype = dtypes.gradients;
      break;
    default:
      break;
  }
  kernel.dtype = dtypes.compute;
  return kernel;
}

}  // namespace

std::vector<Kernel> kernel_grid(Precision precision) {
  std::vector<Kernel> grid;
  add_products(grid);
  add_attention(grid);
  add_activations(grid);
  add_flat(grid);
  for (Kernel& kernel : grid) kernel = in_precision(kernel, dtypes_of(precision));
  return grid;
}

}  // namespace shardscope
