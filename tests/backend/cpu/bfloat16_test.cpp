// Kernels on bfloat16: what the same kernel makes of the same numbers in float32 (which the other
// tests compare with plain formulas), rounded where it is stored.
#include <cmath>
#include <limits>
#include <variant>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/bfloat16.h"
#include "tests/backend/cpu/guarded_call.h"

namespace shardscope::test {
namespace {

using Numbers = std::vector<float>;
using Halves = std::vector<Bfloat16>;

/// Numbers that are stored in the kernel's dtype, in its gradient_dtype, or as they are.
struct Element {
  Numbers values;
};
struct Gradient {
  Numbers values;
};
using Words = Numbers;
using Operand = std::variant<std::monostate, Element, Gradient, Words, std::vector<std::int32_t>,
                             std::vector<double>>;

struct Case {
  Kernel kernel;
  std::vector<Operand> operands;
  std::vector<std::size_t> outputs;
  std::vector<Slice> slices = {};
  int roundings = 1;              ///< of one stored number
  int roundings_by_cublaslt = 1;  ///< the same where the product is cuBLASLt's
};

Halves halves_of(const Numbers& values) {
  Halves halves;
  for (const float value : values) halves.push_back(to_bfloat16(value));
  return halves;
}
Numbers floats_of(const Halves& halves) {
  Numbers values;
  for (const Bfloat16 half : halves) values.push_back(to_float(half));
  return values;
}
/// Normal numbers that bfloat16 has.
Numbers halved(std::int64_t count, int seed) { return floats_of(halves_of(numbers(count, seed))); }
Element element(std::int64_t count, int seed) { return {halved(count, seed)}; }
Gradient gradient(std::int64_t count, int seed) { return {halved(count, seed)}; }

Dtype dtype_of(const Operand& operand, const Kernel& kernel) {
  if (std::holds_alternative<Element>(operand)) return kernel.dtype();
  if (!std::holds_alternative<Gradient>(operand)) return Dtype::float32;
  return kernel.visit([](const auto& k) { return gradient_dtype_of(k); });
}

void add(GuardedCall& call, const Operand& operand, const Kernel& kernel) {
  const auto stored = [&](const Numbers& values) {
    dtype_of(operand, kernel) == Dtype::bfloat16 ? call.with(halves_of(values)) : call.with(values);
  };
  if (const auto* e = std::get_if<Element>(&operand)) return stored(e->values);
  if (const auto* g = std::get_if<Gradient>(&operand)) return stored(g->values);
  if (const auto* words = std::get_if<Words>(&operand)) return void(call.with(*words));
  if (const auto* ids = std::get_if<std::vector<std::int32_t>>(&operand))
    return void(call.with(*ids));
  if (const auto* sums = std::get_if<std::vector<double>>(&operand)) return void(call.with(*sums));
  call.absent();
}

Numbers output(const GuardedCall& call, const Case& c, std::size_t index) {
  const Operand& operand = c.operands[index];
  if (const auto* sums = std::get_if<std::vector<double>>(&operand)) {
    const auto values = call.result<double>(index);
    return {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(sums->size())};
  }
  const bool half = dtype_of(operand, c.kernel) == Dtype::bfloat16;
  return half ? floats_of(call.result<Bfloat16>(index)) : call.result(index);
}

std::vector<Numbers> run(Device& device, const Case& c) {
  GuardedCall call(c.kernel);
  for (const Operand& operand : c.operands) add(call, operand, c.kernel);
  call.with_slices(c.slices, {.learning_rate = 0.25, .step = 3}).run(device);
  std::vector<Numbers> outputs;
  for (const std::size_t index : c.outputs) outputs.push_back(output(call, c, index));
  return outputs;
}

/// Our own kernels give the same bits for any team.
void expect_same_for_any_team(const Case& c) {
  for (const cpu::KernelTable* table : cpu::usable_kernel_tables()) {
    const std::vector<Numbers> alone = run(*make_table_device(*table, 1), c);
    for (const int threads : {2, 3, 5})
      EXPECT_EQ(run(*make_table_device(*table, threads), c), alone)
          << table->instruction_set << ", " << threads << " threads";
  }
}

void set_dtypes(Kernel& kernel, Dtype dtype, Dtype gradient_dtype) {
  kernel.visit([&](auto& k) {
    if constexpr (requires { k.dtype; }) k.dtype = dtype;
    if constexpr (requires { k.gradient_dtype; }) k.gradient_dtype = gradient_dtype;
  });
}

/// Half a unit in the last place of 8 bits, and some room for another order of summation.
constexpr double rounding = 0x1.1p-8;

int roundings_on(const Device& device, const Case& c) {
  const bool is_cublaslt = device.description().find("cuBLASLt") != std::string::npos;
  return is_cublaslt ? std::max(c.roundings, c.roundings_by_cublaslt) : c.roundings;
}

void expect_rounded(Case c) {
  on_every_device([&](Device& device) {
    const int roundings = roundings_on(device, c);
    set_dtypes(c.kernel, Dtype::float32, Dtype::float32);
    const std::vector<Numbers> expected = run(device, c);
    for (const Dtype gradients : {Dtype::float32, Dtype::bfloat16}) {
      set_dtypes(c.kernel, Dtype::bfloat16, gradients);
      const std::vector<Numbers> got = run(device, c);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const Dtype stored = dtype_of(c.operands[c.outputs[i]], c.kernel);
        expect_close(got[i], widened(expected[i]),
                     stored == Dtype::bfloat16 ? roundings * rounding : 2e-4,
                     fmt::format("operand {}, gradients in {}", c.outputs[i], name_of(gradients)));
      }
    }
  });
  for (const Dtype gradients : {Dtype::float32, Dtype::bfloat16}) {
    set_dtypes(c.kernel, Dtype::bfloat16, gradients);
    expect_same_for_any_team(c);
  }
}

TEST(Bfloat16Kernels, Linear) {
  for (const WeightLayout layout : {WeightLayout::in_out, WeightLayout::out_in}) {
    // More than one block of depth (256) and of rows, and columns that no panel divides.
    const std::int64_t rows = 75, in = 300, out = 150;
    LinearForwardKernel kernel{.layout = layout,
                               .has_bias = true,
                               .has_residual = true,
                               .rows = rows,
                               .in = in,
                               .out = out};
    const Element x = element(rows * in, 1), w = element(in * out, 2), dy = element(rows * out, 3);
    // On an H200 two numbers of cuBLASLt were off as if it rounded before it adds the bias, too.
    expect_rounded({.kernel = kernel,
                    .operands = {x, w, element(out, 4), dy, element(rows * out, 5)},
                    .outputs = {4},
                    .roundings_by_cublaslt = 2});
    kernel.has_bias = kernel.has_residual = false;
    expect_rounded(
        {.kernel = kernel, .operands = {x, w, {}, {}, element(rows * out, 5)}, .outputs = {4}});
    for (const bool accumulate : {false, true}) {
      expect_rounded({.kernel = LinearBackwardInputKernel{.layout = layout,
                                                          .accumulate_input = accumulate,
                                                          .rows = rows,
                                                          .in = in,
                                                          .out = out},
                      .operands = {dy, w, x},
                      .outputs = {2}});
      expect_rounded({.kernel = LinearBackwardWeightKernel{.layout = layout,
                                                           .accumulate = accumulate,
                                                           .has_bias = true,
                                                           .rows = rows,
                                                           .in = in,
                                                           .out = out},
                      .operands = {x, dy, gradient(in * out, 6), gradient(out, 7)},
                      .outputs = {2, 3}});
    }
  }
}

TEST(Bfloat16Kernels, Norm) {
  for (const NormKind norm : {NormKind::layer_norm, NormKind::rms_norm}) {
    const std::int64_t rows = 37, width = 53;
    const bool centred = norm == NormKind::layer_norm;
    const NormForwardKernel forward{
        .norm = norm, .has_bias = centred, .rows = rows, .width = width, .epsilon = 1e-5};
    const NormBackwardKernel backward{.norm = norm,
                                      .accumulate = true,
                                      .accumulate_input = true,
                                      .has_bias = centred,
                                      .rows = rows,
                                      .width = width};
    const Element x = element(rows * width, 1), w = element(width, 2);
    const Operand mean = centred ? Operand(Words(rows, 0.1f)) : Operand();
    const Operand bias = centred ? Operand(element(width, 3)) : Operand();
    const Operand dbias = centred ? Operand(gradient(width, 7)) : Operand();
    expect_rounded({.kernel = forward,
                    .operands = {x, w, bias, element(rows * width, 4), mean, Words(rows)},
                    .outputs = {3, 5}});
    expect_rounded({.kernel = backward,
                    .operands = {element(rows * width, 4), x, w, mean, Words(rows, 0.9f),
                                 element(rows * width, 5), gradient(width, 6), dbias},
                    .outputs = {5, 6}});
  }
}

TEST(Bfloat16Kernels, Attention) {
  const std::int64_t batch = 2, length = 70, heads = 4, kv_heads = 2, dim = 20;
  const std::int64_t rows = batch * length;
  const AttentionKernel attention{.rows = rows,
                                  .batch = batch,
                                  .length = length,
                                  .heads = heads,
                                  .kv_heads = kv_heads,
                                  .head_dim = dim,
                                  .q_stride = heads * dim,
                                  .kv_stride = kv_heads * dim,
                                  .scale = 0.25};
  const RopeKernel rope{.rows = rows,
                        .batch = batch,
                        .length = length,
                        .heads = heads,
                        .kv_heads = kv_heads,
                        .head_dim = dim,
                        .q_stride = heads * dim,
                        .kv_stride = kv_heads * dim};
  const Element q = element(rows * heads * dim, 1), k = element(rows * kv_heads * dim, 2);
  const Element v = element(rows * kv_heads * dim, 3), y = element(rows * heads * dim, 4);
  expect_rounded({.kernel = AttentionForwardKernel{attention},
                  .operands = {q, k, v, y, Words(rows * heads)},
                  .outputs = {3, 4}});
  const Element dy = element(rows * heads * dim, 5);
  expect_rounded({.kernel = AttentionBackwardKernel{attention},
                  .operands = {dy, q, k, v, y, Words(rows * heads, 5.0f), q, k, v},
                  .outputs = {6, 7, 8}});
  const Words table(length * dim, 0.6f);
  expect_rounded({.kernel = RopeForwardKernel{rope}, .operands = {table, q, k}, .outputs = {1, 2}});
  expect_rounded(
      {.kernel = RopeBackwardKernel{rope}, .operands = {table, q, k}, .outputs = {1, 2}});
}

TEST(Bfloat16Kernels, Activations) {
  const std::int64_t rows = 9, width = 37, n = rows * width;
  const ActivationKernel shape{.rows = rows, .features = width};
  expect_rounded({.kernel = GeluForwardKernel{shape},
                  .operands = {element(n, 1), element(n, 2)},
                  .outputs = {1}});
  expect_rounded({.kernel = GeluBackwardKernel{shape},
                  .operands = {element(n, 1), element(n, 2)},
                  .outputs = {1}});
  expect_rounded({.kernel = SwigluForwardKernel{shape},
                  .operands = {element(n, 1), element(n, 2), element(n, 3)},
                  .outputs = {2}});
  expect_rounded({.kernel = SwigluBackwardKernel{shape},
                  .operands = {element(n, 1), element(n, 2), element(n, 3)},
                  .outputs = {1, 2}});
}

TEST(Bfloat16Kernels, Embedding) {
  const std::int64_t length = 6, width = 21, vocabulary = 11;
  const EmbeddingForwardKernel forward{.rows = 2 * length,
                                       .width = width,
                                       .vocabulary = vocabulary,
                                       .batch = 2,
                                       .length = length,
                                       .positions = 8};
  const std::vector<std::int32_t> tokens{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 3};
  const Element x = element(12 * width, 3);
  expect_rounded({.kernel = forward,
                  .operands = {tokens, element(vocabulary * width, 1), element(8 * width, 2), x},
                  .outputs = {3}});
  for (const bool accumulate : {false, true}) {
    // Token 3 stands twice: its rows are added one after the other.
    const EmbeddingBackwardKernel backward{.accumulate = accumulate,
                                           .rows = 2 * length,
                                           .width = width,
                                           .vocabulary = vocabulary,
                                           .batch = 2,
                                           .length = length,
                                           .positions = 8};
    expect_rounded(
        {.kernel = backward,
         .operands = {tokens, x, gradient(vocabulary * width, 4), gradient(8 * width, 5)},
         .outputs = {2, 3},
         .roundings = 2});
  }
}

TEST(Bfloat16Kernels, CrossEntropy) {
  const std::int64_t rows = 5, classes = 301;
  expect_rounded({.kernel = CrossEntropyKernel{.rows = rows, .classes = classes, .scale = 256},
                  .operands = {std::vector<std::int32_t>{0, 300, -100, 17, 5},
                               element(rows * classes, 1),
                               std::vector<double>{0},
                               {}},
                  .outputs = {1, 2}});
}

TEST(Bfloat16Kernels, CrossEntropyRoundsTheTargetsGradientOnce) {
  // Two equal logits of 0: probabilities 1/2, gradients -1/2 and 1/2, all exact.
  on_every_device([](Device& device) {
    GuardedCall call(CrossEntropyKernel{.dtype = Dtype::bfloat16, .rows = 1, .classes = 2});
    call.with(std::vector<std::int32_t>{1})
        .with(halves_of({0, 0}))
        .with(std::vector<double>{0})
        .absent()
        .run(device);
    EXPECT_EQ(floats_of(call.result<Bfloat16>(1)), (Numbers{0.5f, -0.5f}));
    EXPECT_NEAR(call.result<double>(2)[0], std::log(2.0), 1e-7);
  });
}

TEST(Bfloat16Kernels, OptimizersAndSums) {
  const std::int64_t n = 700;
  const std::vector<Slice> slices{{.offset = 256, .elements = 444, .decay = true}};
  Element second = element(n, 4);
  for (float& value : second.values) value = std::abs(value);
  expect_rounded(
      {.kernel =
           AdamWKernel{
               .elements = 444, .epsilon = 1e-3, .beta1 = 0.9, .beta2 = 0.5, .weight_decay = 0.5},
       .operands = {{}, gradient(n, 1), element(n, 2), element(n, 3), second},
       .outputs = {2, 3, 4},
       .slices = slices});
  expect_rounded({.kernel = SgdKernel{.elements = 444, .momentum = 0.9, .weight_decay = 0.5},
                  .operands = {{}, gradient(n, 1), element(n, 2), element(n, 3)},
                  .outputs = {2, 3},
                  .slices = slices});
  expect_rounded({.kernel = SumOfSquaresKernel{.elements = 444},
                  .operands = {gradient(n, 1), std::vector<double>(2)},
                  .outputs = {1},
                  .slices = slices});
  expect_rounded({.kernel = AddKernel{.elements = n},
                  .operands = {element(n, 1), element(n, 2)},
                  .outputs = {1}});
  expect_rounded(
      {.kernel = FillZeroKernel{.elements = n}, .operands = {element(n, 1)}, .outputs = {0}});
}

TEST(Bfloat16Kernels, OptimizersWriteARoundedCopyOfFloat32Parameters) {
  const std::vector<Slice> slices{{.offset = 0, .elements = 300, .decay = true}};
  const Kernel adamw = AdamWKernel{.has_copy = true, .elements = 300, .beta1 = 0.5};
  const Kernel sgd = SgdKernel{.has_copy = true, .elements = 300, .momentum = 0.5};
  for (const Kernel& kernel : {adamw, sgd}) {
    on_every_device([&](Device& device) {
      GuardedCall call(kernel);
      call.absent().with(numbers(300, 1)).with(numbers(300, 2)).with(Numbers(300));
      if (kernel == adamw) call.with(Numbers(300));
      call.with(Halves(300)).with_slices(slices, {.learning_rate = 0.1, .step = 1}).run(device);
      const std::size_t copy = kernel == adamw ? 5 : 4;
      EXPECT_EQ(floats_of(call.result<Bfloat16>(copy)), floats_of(halves_of(call.result(2))));
      EXPECT_NE(call.result(2), numbers(300, 2));
    });
  }
}

TEST(Bfloat16Kernels, RoundAsTheScalarTypeDoes) {
  // Ties, the largest number, infinities, NaN, at every place of a vector and of its tail.
  const float infinity = std::numeric_limits<float>::infinity();
  const Numbers odd{1.0f + 0x1p-7f, 3.0f, -0.5f, infinity, -infinity, 0x1.FEp127f, 0x1p-130f};
  const Numbers even{0x1p-8f, 0x1p-7f, -0x1p-9f, 1.0f, 1.0f, 0x1p119f, 0x1p-133f};
  on_every_device([&](Device& device) {
    for (std::int64_t n = 1; n <= 40; ++n) {
      Numbers a, b;
      Halves expected;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(i) % odd.size();
        a.push_back(odd[at]);
        b.push_back(even[at]);
        expected.push_back(to_bfloat16(odd[at] + even[at]));
      }
      GuardedCall call(AddKernel{.dtype = Dtype::bfloat16, .elements = n});
      call.with(halves_of(a)).with(halves_of(b)).run(device);
      EXPECT_EQ(floats_of(call.result<Bfloat16>(1)), floats_of(expected)) << n;
    }
  });
}

}  // namespace
}  // namespace shardscope::test
