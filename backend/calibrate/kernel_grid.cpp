#include "backend/calibrate/kernel_grid.h"

#include <cmath>

namespace shardscope {
namespace {

struct Weight {
  std::int64_t in = 0;
  std::int64_t out = 0;
};

/// What a device of its speed is given to train.
struct Sizes {
  std::vector<Weight> weights;
  std::vector<std::int64_t> rows;  ///< of matrix products
  double largest_product_flops = 0;
  double largest_product_flops_float32 = 0;  ///< without tensor cores
  std::vector<std::int64_t> lengths;         ///< of attention
  std::int64_t tokens = 0;                   ///< of attention and rotations, in all sequences
  std::int64_t heads = 0;
  std::vector<std::int64_t> token_rows;  ///< of norms, activations, embeddings
  std::int64_t width = 0, inner = 0;
  std::vector<std::int64_t> vocabulary_rows;  ///< of a large vocabulary's loss
  std::vector<std::int64_t> elements;         ///< of flat operands
};

Sizes sizes_of(GridFor device) {
  if (device == GridFor::gpu)
    return {
        .weights = {{768, 768}, {768, 3072}, {3072, 768}, {1600, 6400}, {4096, 4096}, {768, 50304}},
        .rows = {1024, 8192, 32768},
        .largest_product_flops = 3e12,
        .largest_product_flops_float32 = 5e11,
        .lengths = {256, 1024, 4096},
        .tokens = 1 << 15,
        .heads = 12,
        .token_rows = {1 << 12, 1 << 15},
        .width = 1024,
        .inner = 4096,
        .vocabulary_rows = {1 << 10, 1 << 13},
        .elements = {1 << 20, 1 << 24, 1 << 27}};
  return {.weights = {{128, 128}, {384, 1536}, {1536, 384}, {1024, 1024}, {768, 3072}},
          .rows = {64, 512, 2048},
          .largest_product_flops = 5e9,
          .largest_product_flops_float32 = 5e9,
          .lengths = {64, 256, 1024},
          .tokens = 2048,
          .heads = 4,
          .token_rows = {256, 2048},
          .width = 512,
          .inner = 1536,
          .vocabulary_rows = {128},
          .elements = {1 << 16, 1 << 20, 1 << 23}};
}

void add_products(std::vector<Kernel>& grid, const Sizes& sizes, double largest_flops) {
  for (const WeightLayout layout : {WeightLayout::in_out, WeightLayout::out_in})
    for (const KernelKind kind : {KernelKind::linear_forward, KernelKind::linear_backward_input,
                                  KernelKind::linear_backward_weight})
      for (const Weight weight : sizes.weights)
        for (const std::int64_t rows : sizes.rows) {
          const Kernel kernel{
              .kind = kind, .layout = layout, .rows = rows, .in = weight.in, .out = weight.out};
          if (static_cast<double>(flops_of(kernel).count) <= largest_flops) grid.push_back(kernel);
        }
}

Kernel heads_of(KernelKind kind, std::int64_t heads, std::int64_t batch, std::int64_t length) {
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

void add_attention(std::vector<Kernel>& grid, const Sizes& sizes) {
  for (const std::int64_t length : sizes.lengths)
    for (const KernelKind kind : {KernelKind::attention_forward, KernelKind::attention_backward})
      grid.push_back(heads_of(kind, sizes.heads, sizes.tokens / length, length));
  for (const std::int64_t rows : sizes.token_rows)
    for (const KernelKind kind : {KernelKind::rope_forward, KernelKind::rope_backward})
      grid.push_back(heads_of(kind, sizes.heads, rows / 256, 256));
}

void add_activations(std::vector<Kernel>& grid, const Sizes& sizes) {
  for (const std::int64_t rows : sizes.token_rows) {
    for (const KernelKind kind : {KernelKind::norm_forward, KernelKind::norm_backward})
      for (const NormKind norm : {NormKind::layer_norm, NormKind::rms_norm})
        grid.push_back({.kind = kind,
                        .norm = norm,
                        .has_bias = norm == NormKind::layer_norm,
                        .rows = rows,
                        .in = sizes.width,
                        .epsilon = 1e-5});
    for (const KernelKind kind : {KernelKind::gelu_forward, KernelKind::gelu_backward,
                                  KernelKind::swiglu_forward, KernelKind::swiglu_backward})
      grid.push_back({.kind = kind, .rows = rows, .in = sizes.inner});
    for (const KernelKind kind : {KernelKind::embedding_forward, KernelKind::embedding_backward})
      grid.push_back({.kind = kind,
                      .rows = rows,
                      .in = sizes.width,
                      .out = 256,
                      .batch = rows / 256,
                      .length = 256,
                      .positions = 256});
    grid.push_back({.kind = KernelKind::cross_entropy, .rows = rows, .out = 256});
    grid.push_back({.kind = KernelKind::count_targets, .rows = rows});
  }
  for (const std::int64_t rows : sizes.vocabulary_rows)
    grid.push_back(
        {.kind = KernelKind::cross_entropy, .rows = rows, .out = 50257, .out_stride = 50264});
}

void add_flat(std::vector<Kernel>& grid, const Sizes& sizes) {
  for (const std::int64_t elements : sizes.elements) {
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

std::vector<Kernel> kernel_grid(Precision precision, GridFor device) {
  const Sizes sizes = sizes_of(device);
  const bool in_float32 = dtypes_of(precision).compute == Dtype::float32;
  std::vector<Kernel> grid;
  add_products(grid, sizes,
               in_float32 ? sizes.largest_product_flops_float32 : sizes.largest_product_flops);
  add_attention(grid, sizes);
  add_activations(grid, sizes);
  add_flat(grid, sizes);
  for (Kernel& kernel : grid) kernel = in_precision(kernel, dtypes_of(precision));
  return grid;
}

}  // namespace shardscope
