// The fastest that oneDNN does the matrix products of a model's step on one core: every shape in
// every layout that it could be given in, by processor time, which other processes hardly disturb.
// One JSON object; cpu.py runs one per core.
//
// usage: gemm_rate MODEL BATCH SEQ fp32|bf16_mixed|bf16
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "core/base/error.h"
#include "core/base/precision.h"
#include "core/model/read_model.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/schedule/kernel.h"
#include "core/schedule/schedule.h"

namespace shardscope {
namespace {

using dnnl::memory;

/// C[rows, columns] = A[rows, depth] B[depth, columns].
struct Shape {
  std::int64_t rows = 0, columns = 0, depth = 0;
  Dtype dtype = Dtype::float32;   ///< of A and B
  Dtype result = Dtype::float32;  ///< of C
  auto operator<=>(const Shape&) const = default;

  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(columns) *
           static_cast<double>(depth);
  }
};

/// How the operands lie. Where C is wanted transposed, the product of the transposed operands is.
struct Layout {
  bool c_transposed = false;
  bool a_transposed = false;
  enum class Weights { plain, transposed, packed } b = Weights::plain;
};

std::string text_of(const Layout& layout) {
  constexpr std::array names{"plain", "transposed", "packed"};
  return fmt::format("A {}, B {}{}", names[layout.a_transposed ? 1 : 0],
                     names[static_cast<std::size_t>(layout.b)],
                     layout.c_transposed ? ", C transposed" : "");
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const bool c_transposed : {false, true})
    for (const bool a_transposed : {false, true})
      for (const auto b :
           {Layout::Weights::plain, Layout::Weights::transposed, Layout::Weights::packed})
        all.push_back({c_transposed, a_transposed, b});
  return all;
}

std::optional<Shape> product_of(const Kernel& kernel) {
  if (const auto* k = kernel.get_if<LinearForwardKernel>())
    return Shape{k->rows, k->out, k->in, k->dtype, k->dtype};
  if (const auto* k = kernel.get_if<LinearBackwardInputKernel>())
    return Shape{k->rows, k->in, k->out, k->dtype, k->dtype};
  if (const auto* k = kernel.get_if<LinearBackwardWeightKernel>())
    return Shape{k->in, k->out, k->rows, k->dtype, k->gradient_dtype};
  return std::nullopt;
}

/// Every product of a step and how often it is made.
std::map<Shape, int> products_of(const Schedule& schedule) {
  std::map<Shape, int> products;
  for (const Operation& operation : schedule.operations) {
    if (operation.kind != OperationKind::compute) continue;
    if (const auto shape = product_of(schedule.kernels[operation.detail])) ++products[*shape];
  }
  return products;
}

memory::desc matrix(Dtype dtype, std::int64_t rows, std::int64_t columns, memory::format_tag tag) {
  const auto type = dtype == Dtype::bfloat16 ? memory::data_type::bf16 : memory::data_type::f32;
  return {memory::dims{rows, columns}, type, tag};
}

dnnl::matmul primitive_of(const Shape& shape, const Layout& layout, const dnnl::engine& engine,
                          std::unordered_map<int, memory>& arguments) {
  using Tag = memory::format_tag;
  constexpr std::array tags{Tag::ab, Tag::ba, Tag::any};
  const auto [rows, columns] = layout.c_transposed ? std::pair(shape.columns, shape.rows)
                                                   : std::pair(shape.rows, shape.columns);
  const dnnl::matmul::desc operation(
      matrix(shape.dtype, rows, shape.depth, tags[layout.a_transposed ? 1 : 0]),
      matrix(shape.dtype, shape.depth, columns, tags[static_cast<std::size_t>(layout.b)]),
      matrix(shape.result, rows, columns, Tag::ab));
  const dnnl::matmul::primitive_desc description(operation, engine);
  for (const auto& [argument, desc] : {std::pair(DNNL_ARG_SRC, description.src_desc()),
                                       std::pair(DNNL_ARG_WEIGHTS, description.weights_desc()),
                                       std::pair(DNNL_ARG_DST, description.dst_desc())})
    arguments.emplace(argument, memory(desc, engine));
  return dnnl::matmul(description);
}

/// Values that are neither 0 nor denormal, whatever the layout: 0x3c3c3c3c is 0.0115 as float32 and
/// twice 0.0115 as bfloat16.
void fill(memory& operand) {
  std::fill_n(static_cast<unsigned char*>(operand.get_data_handle()), operand.get_desc().get_size(),
              static_cast<unsigned char>(0x3c));
}

/// Median of at least three calls and 60 ms. A layout whose first call takes a quarter longer than
/// `beat_s` is out.
double seconds_of(const Shape& shape, const Layout& layout, double beat_s,
                  const dnnl::engine& engine, dnnl::stream& stream) {
  constexpr double out_of_race = 1.25, least_s = 0.06;
  std::unordered_map<int, memory> arguments;
  const dnnl::matmul product = primitive_of(shape, layout, engine, arguments);
  for (auto& [argument, operand] : arguments) fill(operand);
  const auto timed = [&] {
    const std::clock_t begin = std::clock();
    product.execute(stream, arguments);
    stream.wait();
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  constexpr double short_s = 0.02;
  double first = timed();
  if (first < short_s) first = timed();  // what the first call sets up would count
  if (first > out_of_race * beat_s) return first;
  std::vector<double> times{first};
  for (double sum = first; times.size() < 3 || sum < least_s; sum += times.back())
    times.push_back(timed());
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

struct Best {
  double seconds = 0;
  Layout layout;
};

Best best_of(const Shape& shape, const dnnl::engine& engine, dnnl::stream& stream) {
  Best best{.seconds = 1e9};
  for (const Layout& layout : layouts()) {
    const double seconds = seconds_of(shape, layout, best.seconds, engine, stream);
    if (seconds < best.seconds) best = {seconds, layout};
  }
  return best;
}

Schedule schedule_of(std::string_view path, std::int64_t batch, std::int64_t seq,
                     std::string_view precision) {
  const Model model = read_model(path, {.class_name = {}, .dtype = Dtype::float32});
  Strategy strategy;
  strategy.sharding = ShardingStrategy::no_shard;
  strategy.precision = parse_precision(precision, "gemm_rate");
  return native_schedule(model, resolved(strategy, 1, "strategy"), {.batch = batch, .length = seq},
                         0);
}

std::int64_t count_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1)
    throw Error({.where = "gemm_rate", .what = fmt::format("\"{}\" is no count", text)});
  return value;
}

void measure(const Schedule& schedule) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  double flops = 0, seconds = 0;
  fmt::print("{{\"products\": [");
  std::string_view between;
  for (const auto& [shape, times] : products_of(schedule)) {
    const Best best = best_of(shape, engine, stream);
    fmt::print(
        "{}\n  {{\"rows\": {}, \"columns\": {}, \"depth\": {}, \"times\": {}, \"ns\": {:.0f}, "
        "\"flops_per_s\": {:.4g}, \"layout\": \"{}\"}}",
        between, shape.rows, shape.columns, shape.depth, times, best.seconds * 1e9,
        shape.flops() / best.seconds, text_of(best.layout));
    between = ",";
    flops += times * shape.flops();
    seconds += times * best.seconds;
  }
  fmt::print("],\n \"flops\": {:.6g}, \"flops_per_s\": {:.6g}}}\n", flops, flops / seconds);
}

}  // namespace
}  // namespace shardscope

int main(int count, char** arguments) {
  if (count != 5) {
    fmt::print(stderr, "usage: gemm_rate MODEL BATCH SEQ fp32|bf16_mixed|bf16\n");
    return 2;
  }
  try {
    shardscope::measure(shardscope::schedule_of(arguments[1], shardscope::count_of(arguments[2]),
                                                shardscope::count_of(arguments[3]), arguments[4]));
  } catch (const std::exception& error) {
    fmt::print(stderr, "gemm_rate: {}\n", error.what());
    return 1;
  }
  return 0;
}
