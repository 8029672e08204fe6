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

template <LinearKernel K>
void add_products(std::vector<Kernel>& grid, WeightLayout layout, const Sizes& sizes,
                  double largest_flops) {
  for (const Weight weight : sizes.weights)
    for (const std::int64_t rows : sizes.rows) {
      const Kernel kernel = K{.layout = layout, .rows = rows, .in = weight.in, .out = weight.out};
      if (static_cast<double>(flops_of(kernel).count) <= largest_flops) grid.push_back(kernel);
    }
}

void add_products(std::vector<Kernel>& grid, const Sizes& sizes, double largest_flops) {
  for (const WeightLayout layout : {WeightLayout::in_out, WeightLayout::out_in}) {
    add_products<LinearForwardKernel>(grid, layout, sizes, largest_flops);
    add_products<LinearBackwardInputKernel>(grid, layout, sizes, largest_flops);
    add_products<LinearBackwardWeightKernel>(grid, layout, sizes, largest_flops);
  }
}

constexpr std::int64_t head_dim = 64;

AttentionKernel attention_of(std::int64_t heads, std::int64_t batch, std::int64_t length) {
  return {.rows = batch * length,
          .batch = batch,
          .length = length,
          .heads = heads,
          .kv_heads = heads,
          .head_dim = head_dim,
          .q_stride = heads * head_dim,
          .kv_stride = heads * head_dim,
          .scale = 1 / std::sqrt(static_cast<double>(head_dim))};
}

RopeKernel rope_of(std::int64_t heads, std::int64_t batch, std::int64_t length) {
  return {.rows = batch * length,
          .batch = batch,
          .length = length,
          .heads = heads,
          .kv_heads = heads,
          .head_dim = head_dim,
          .q_stride = heads * head_dim,
          .kv_stride = heads * head_dim};
}

void add_attention(std::vector<Kernel>& grid, const Sizes& sizes) {
  for (const std::int64_t length : sizes.lengths) {
    const AttentionKernel heads = attention_of(sizes.heads, sizes.tokens / length, length);
    grid.push_back(AttentionForwardKernel{heads});
    grid.push_back(AttentionBackwardKernel{heads});
  }
  for (const std::int64_t rows : sizes.token_rows) {
    const RopeKernel heads = rope_of(sizes.heads, rows / 256, 256);
    grid.push_back(RopeForwardKernel{heads});
    grid.push_back(RopeBackwardKernel{heads});
  }
}

void add_norms(std::vector<Kernel>& grid, std::int64_t rows, std::int64_t width) {
  for (const NormKind norm : {NormKind::layer_norm, NormKind::rms_norm})
    grid.push_back(NormForwardKernel{.norm = norm,
                                     .has_bias = norm == NormKind::layer_norm,
                                     .rows = rows,
                                     .width = width,
                                     .epsilon = 1e-5});
  for (const NormKind norm : {NormKind::layer_norm, NormKind::rms_norm})
    grid.push_back(NormBackwardKernel{
        .norm = norm, .has_bias = norm == NormKind::layer_norm, .rows = rows, .width = width});
}

void add_embeddings(std::vector<Kernel>& grid, std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t length = 256, vocabulary = 256;
  grid.push_back(EmbeddingForwardKernel{.rows = rows,
                                        .width = width,
                                        .vocabulary = vocabulary,
                                        .batch = rows / length,
                                        .length = length,
                                        .positions = length});
  grid.push_back(EmbeddingBackwardKernel{.rows = rows,
                                         .width = width,
                                         .vocabulary = vocabulary,
                                         .batch = rows / length,
                                         .length = length,
                                         .positions = length});
}

void add_activations(std::vector<Kernel>& grid, const Sizes& sizes) {
  for (const std::int64_t rows : sizes.token_rows) {
    add_norms(grid, rows, sizes.width);
    const ActivationKernel inner{.rows = rows, .features = sizes.inner};
    grid.push_back(GeluForwardKernel{inner});
    grid.push_back(GeluBackwardKernel{inner});
    grid.push_back(SwigluForwardKernel{inner});
    grid.push_back(SwigluBackwardKernel{inner});
    add_embeddings(grid, rows, sizes.width);
    grid.push_back(CrossEntropyKernel{.rows = rows, .classes = 256});
    grid.push_back(CountTargetsKernel{.rows = rows});
  }
  for (const std::int64_t rows : sizes.vocabulary_rows)
    grid.push_back(CrossEntropyKernel{.rows = rows, .classes = 50257, .logits_stride = 50264});
}

void add_flat(std::vector<Kernel>& grid, const Sizes& sizes) {
  for (const std::int64_t elements : sizes.elements) {
    grid.push_back(SumOfSquaresKernel{.elements = elements});
    grid.push_back(AddKernel{.elements = elements});
    grid.push_back(FillZeroKernel{.elements = elements});
    grid.push_back(AdamWKernel{.has_clip = true,
                               .elements = elements,
                               .epsilon = 1e-8,
                               .beta1 = 0.9,
                               .beta2 = 0.95,
                               .weight_decay = 0.1});
    grid.push_back(SgdKernel{.has_clip = true, .elements = elements, .momentum = 0.9});
  }
  for (const std::int64_t pieces : {1 << 10, 1 << 16})
    grid.push_back(ClipCoefficientKernel{.pieces = pieces, .clip = 1});
}

constexpr bool is_of_gradients(KernelKind kind) {
  return kind == KernelKind::add || kind == KernelKind::fill_zero;
}

void set_precision(Kernel& kernel, const PrecisionDtypes& dtypes) {
  kernel.visit([&]<class K>(K& k) {
    if constexpr (requires { k.gradient_dtype; }) k.gradient_dtype = dtypes.gradients;
    if constexpr (requires { k.has_copy; }) {
      k.dtype = dtypes.updated;
      k.has_copy = dtypes.has_master();
    } else if constexpr (requires { k.dtype; }) {
      k.dtype = is_of_gradients(K::kind) ? dtypes.gradients : dtypes.compute;
    }
  });
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
  for (Kernel& kernel : grid) set_precision(kernel, dtypes_of(precision));
  return grid;
}

}  // namespace shardscope
