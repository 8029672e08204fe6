// Speed of the CPU device's kernels at the shapes of the models that we train: matrix products and
// attention in flops, the rest in bytes per second.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_device.h"
#include "core/schedule/kernel.h"

namespace shardscope {
namespace {

enum class Rate { flops, bytes };

/// Of add, sum_of_squares and adamw.
constexpr std::int64_t flat_elements = 1 << 24;

/// One kernel with its operands: element counts in the kernel's order, 0 where absent.
struct Timed {
  std::string name;
  Kernel kernel;
  std::vector<std::int64_t> floats;
  Rate rate = Rate::flops;
  double work = 0;  ///< flops or bytes of one call
};

class Operands {
 public:
  explicit Operands(const std::vector<std::int64_t>& counts) {
    for (const std::int64_t count : counts) add(count * 4);
  }
  void add(std::int64_t bytes) {
    constexpr std::align_val_t alignment{64};
    auto* memory = bytes > 0 ? ::operator new(static_cast<std::size_t>(bytes), alignment) : nullptr;
    for (std::int64_t i = 0; i < bytes / 4; ++i)
      static_cast<float*>(memory)[i] = 0.01f * static_cast<float>(i % 13 - 6);
    pointers_.push_back(memory);
  }
  ~Operands() {
    for (void* memory : pointers_) ::operator delete (memory, std::align_val_t{64});
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
  std::vector<void*>& pointers() { return pointers_; }

 private:
  std::vector<void*> pointers_;
};

void run(benchmark::State& state, const Timed& timed, const CpuOptions& options) {
  const std::unique_ptr<Device> device = make_cpu_device(options);
  device->prepare(timed.kernel);
  Operands operands(timed.floats);
  // Token ids and targets of 0 are valid everywhere.
  if (const auto* loss = timed.kernel.get_if<CrossEntropyKernel>())
    std::fill_n(static_cast<std::int32_t*>(operands.pointers()[0]), loss->rows, 0);
  operands.add(device->workspace(timed.kernel).count + 64);
  const std::vector<Slice> slices{{.parameter = {0},
                                   .offset = 0,
                                   .elements = flat_elements,
                                   .parameter_offset = 0,
                                   .piece = 0,
                                   .decay = true}};
  const KernelCall call{
      .operands = operands.pointers(), .slices = slices, .state = {.learning_rate = 0, .step = 5}};
  for (auto _ : state) device->run(timed.kernel, call);
  const char* unit = timed.rate == Rate::flops ? "flop" : "bytes";
  state.counters[unit] =
      benchmark::Counter(timed.work, benchmark::Counter::kIsIterationInvariantRate);
}

struct LinearShape {
  const char* name;
  std::int64_t rows, in, out;
  WeightLayout layout;
};
const std::vector<LinearShape> linear_shapes{
    {"gpt2_baby qkv", 2048, 384, 1152, WeightLayout::in_out},
    {"gpt2_baby mlp_in", 2048, 384, 1536, WeightLayout::in_out},
    {"gpt2_baby mlp_out", 2048, 1536, 384, WeightLayout::in_out},
    {"gpt2_124m 1x256 qkv", 256, 768, 2304, WeightLayout::in_out},
    {"gpt2_124m 1x256 head", 256, 768, 50257, WeightLayout::out_in},
    {"gpt2_124m 4x256 mlp_in", 1024, 768, 3072, WeightLayout::in_out},
    {"llama_25m gate", 1024, 512, 1376, WeightLayout::out_in},
    {"llama_25m down", 1024, 1376, 512, WeightLayout::out_in}};

std::vector<Timed> linear_kernels(const LinearShape& s) {
  const std::int64_t x = s.rows * s.in, y = s.rows * s.out, weight = s.in * s.out;
  std::vector<Timed> timed;
  const auto add = [&](const Kernel& kernel, std::vector<std::int64_t> floats) {
    timed.push_back({.name = fmt::format("{}/{}", name_of(kernel.kind()), s.name),
                     .kernel = kernel,
                     .floats = std::move(floats),
                     .work = 2.0 * static_cast<double>(x) * static_cast<double>(s.out)});
  };
  add(LinearForwardKernel{.layout = s.layout, .rows = s.rows, .in = s.in, .out = s.out},
      {x, weight, 0, 0, y});
  add(LinearBackwardInputKernel{.layout = s.layout, .rows = s.rows, .in = s.in, .out = s.out},
      {y, weight, x});
  add(
      LinearBackwardWeightKernel{
          .layout = s.layout, .accumulate = true, .rows = s.rows, .in = s.in, .out = s.out},
      {x, y, weight, 0});
  return timed;
}

struct AttentionShape {
  const char* name;
  std::int64_t batch, length, heads, kv_heads;
};
const std::vector<AttentionShape> attention_shapes{{"gpt2_baby 8x256", 8, 256, 6, 6},
                                                   {"llama_25m 4x256", 4, 256, 8, 4},
                                                   {"gpt2_124m 1x1024", 1, 1024, 12, 12}};

std::vector<Timed> attention_kernels(const AttentionShape& s) {
  const AttentionKernel kernel{.rows = s.batch * s.length,
                               .batch = s.batch,
                               .length = s.length,
                               .heads = s.heads,
                               .kv_heads = s.kv_heads,
                               .head_dim = 64,
                               .q_stride = s.heads * 64,
                               .kv_stride = s.kv_heads * 64,
                               .scale = 0.125};
  const std::int64_t q = kernel.rows * kernel.q_stride, kv = kernel.rows * kernel.kv_stride;
  const std::int64_t lse = kernel.rows * s.heads;
  // Two products of length x length x head_dim, of which the causal half counts; backward five.
  const double product = static_cast<double>(q) * static_cast<double>(s.length);
  std::vector<Timed> timed;
  timed.push_back({.name = fmt::format("attention_forward/{}", s.name),
                   .kernel = AttentionForwardKernel{kernel},
                   .floats = {q, kv, kv, q, lse},
                   .work = 2 * product});
  timed.push_back({.name = fmt::format("attention_backward/{}", s.name),
                   .kernel = AttentionBackwardKernel{kernel},
                   .floats = {q, q, kv, kv, q, lse, q, kv, kv},
                   .work = 5 * product});
  return timed;
}

/// Kernels that memory bounds: bytes are every operand read or written once.
std::vector<Timed> memory_kernels() {
  constexpr std::int64_t rows = 2048, width = 1536, classes = 50257, elements = flat_elements;
  constexpr std::int64_t values = rows * width;
  std::vector<Timed> timed;
  const auto add = [&](const Kernel& kernel, std::vector<std::int64_t> floats, double bytes) {
    timed.push_back({.name = std::string(name_of(kernel.kind())),
                     .kernel = kernel,
                     .floats = std::move(floats),
                     .rate = Rate::bytes,
                     .work = bytes});
  };
  const double matrix = 4.0 * values;
  const ActivationKernel activation{.rows = rows, .features = width};
  add(NormForwardKernel{.rows = rows, .width = width, .epsilon = 1e-5},
      {values, width, width, values, rows, rows}, 2 * matrix);
  add(NormBackwardKernel{.rows = rows, .width = width},
      {values, values, width, rows, rows, values, width, width}, 3 * matrix);
  add(GeluForwardKernel{activation}, {values, values}, 2 * matrix);
  add(GeluBackwardKernel{activation}, {values, values}, 3 * matrix);
  add(SwigluForwardKernel{activation}, {values, values, values}, 3 * matrix);
  add(SwigluBackwardKernel{activation}, {values, values, values}, 5 * matrix);
  add(CrossEntropyKernel{.rows = 256, .classes = classes}, {256, 256 * classes, 2, 0},
      8.0 * 256 * classes);
  add(AddKernel{.elements = elements}, {elements, elements}, 12.0 * elements);
  add(SumOfSquaresKernel{.elements = elements}, {elements, elements / 128}, 4.0 * elements);
  add(AdamWKernel{.elements = elements, .epsilon = 1e-5, .beta1 = 0.9, .beta2 = 0.95},
      {0, elements, elements, elements, elements}, 28.0 * elements);
  return timed;
}

void register_one(const Timed& timed, const std::string& suffix, const CpuOptions& options) {
  benchmark::RegisterBenchmark(
      (timed.name + suffix).c_str(),
      [timed, options](benchmark::State& state) { run(state, timed, options); })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

bool register_all() {
  for (const LinearShape& shape : linear_shapes)
    for (const Timed& timed : linear_kernels(shape)) {
      register_one(timed, "", {.threads = 1});
      register_one(timed, "/plain", {.threads = 1, .use_onednn = false});
    }
  for (const AttentionShape& shape : attention_shapes)
    for (const Timed& timed : attention_kernels(shape)) register_one(timed, "", {.threads = 1});
  for (const Timed& timed : memory_kernels()) register_one(timed, "", {.threads = 1});
  return true;
}
const bool registered = register_all();

}  // namespace
}  // namespace shardscope
