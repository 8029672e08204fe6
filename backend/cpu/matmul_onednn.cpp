#include <array>
#include <compare>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "backend/cpu/matmul_library.h"
#include "backend/cpu/team.h"
#include "core/base/error.h"

namespace shardscope::cpu {
namespace {

using dnnl::memory;

/// What distinguishes one product from another: C[rows, columns] = A[rows, depth] B[depth,
/// columns], each stored as it is or transposed.
struct Product {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  /// Elements between rows as they are stored.
  std::int64_t a_row = 0, b_row = 0, c_row = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;  ///< added to what C holds
  bool has_bias = false;
  bool has_addend = false;        ///< another matrix of C's shape is added
  Dtype dtype = Dtype::float32;   ///< of A, B, the bias and the addend
  Dtype result = Dtype::float32;  ///< of C

  auto operator<=>(const Product&) const = default;
};

/// The pointers of one execution.
struct Arguments {
  void* a = nullptr;
  void* b = nullptr;
  void* bias = nullptr;
  void* addend = nullptr;
  void* c = nullptr;
  void* workspace = nullptr;
};

Product product_of(const LinearForwardKernel& kernel) {
  const bool out_in = kernel.layout == WeightLayout::out_in;
  return {.rows = kernel.rows,
          .columns = kernel.out,
          .depth = kernel.in,
          .a_row = kernel.in,
          .b_row = out_in ? kernel.in : kernel.out,
          .c_row = kernel.out_row(),
          .b_transposed = out_in,
          .accumulate = kernel.has_residual,
          .has_bias = kernel.has_bias,
          .dtype = kernel.dtype,
          .result = kernel.dtype};
}

Product product_of(const LinearBackwardInputKernel& kernel) {
  const bool out_in = kernel.layout == WeightLayout::out_in;
  return {.rows = kernel.rows,
          .columns = kernel.in,
          .depth = kernel.out,
          .a_row = kernel.out_row(),
          .b_row = out_in ? kernel.in : kernel.out,
          .c_row = kernel.in,
          .b_transposed = !out_in,
          .accumulate = kernel.accumulate_input,
          .dtype = kernel.dtype,
          .result = kernel.dtype};
}

Product product_of(const LinearBackwardWeightKernel& kernel) {
  const bool out_in = kernel.layout == WeightLayout::out_in;
  return {.rows = out_in ? kernel.out : kernel.in,
          .columns = out_in ? kernel.in : kernel.out,
          .depth = kernel.rows,
          .a_row = out_in ? kernel.out_row() : kernel.in,
          .b_row = out_in ? kernel.in : kernel.out_row(),
          .c_row = out_in ? kernel.in : kernel.out,
          .a_transposed = true,
          .accumulate = kernel.accumulate,
          .dtype = kernel.dtype,
          .result = kernel.gradient_dtype};
}

/// The same product where the residual is another matrix than the output.
Product with_addend(Product product) {
  product.accumulate = false;
  product.has_addend = true;
  return product;
}

Product product_of(const Kernel& kernel) {
  if (const auto* forward = kernel.get_if<LinearForwardKernel>()) return product_of(*forward);
  if (const auto* backward = kernel.get_if<LinearBackwardInputKernel>())
    return product_of(*backward);
  return product_of(kernel.get<LinearBackwardWeightKernel>());
}

bool may_have_addend(const Kernel& kernel) {
  const auto* forward = kernel.get_if<LinearForwardKernel>();
  return forward && forward->has_residual;
}

Arguments arguments_of(const Kernel& kernel, const KernelCall& call) {
  const auto& o = call.operands;
  const auto scratch = [&](std::size_t index) { return index < o.size() ? o[index] : nullptr; };
  if (kernel.kind() == KernelKind::linear_forward)
    return {.a = o[0], .b = o[1], .bias = o[2], .addend = o[3], .c = o[4], .workspace = scratch(5)};
  if (kernel.kind() == KernelKind::linear_backward_input)
    return {.a = o[0], .b = o[1], .c = o[2], .workspace = scratch(3)};
  const bool out_in = kernel.get<LinearBackwardWeightKernel>().layout == WeightLayout::out_in;
  return {.a = out_in ? o[1] : o[0], .b = out_in ? o[0] : o[1], .c = o[2], .workspace = scratch(4)};
}

/// [rows, columns] of a matrix whose stored rows are `row` elements apart.
memory::desc matrix(Dtype dtype, std::int64_t rows, std::int64_t columns, std::int64_t row,
                    bool transposed = false) {
  const memory::dims strides = transposed ? memory::dims{1, row} : memory::dims{row, 1};
  const auto type = dtype == Dtype::bfloat16 ? memory::data_type::bf16 : memory::data_type::f32;
  return {memory::dims{rows, columns}, type, strides};
}

memory::desc bias_of(const Product& p) { return matrix(p.dtype, 1, p.columns, p.columns); }

dnnl::matmul::primitive_desc describe(const Product& p, const dnnl::engine& engine) {
  const memory::desc a = matrix(p.dtype, p.rows, p.depth, p.a_row, p.a_transposed);
  const memory::desc b = matrix(p.dtype, p.depth, p.columns, p.b_row, p.b_transposed);
  const memory::desc c = matrix(p.result, p.rows, p.columns, p.c_row);
  dnnl::post_ops post;
  if (p.accumulate) post.append_sum(1.0f);
  if (p.has_addend) post.append_binary(dnnl::algorithm::binary_add, c);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(post);
  const dnnl::matmul::desc operation =
      p.has_bias ? dnnl::matmul::desc(a, b, bias_of(p), c) : dnnl::matmul::desc(a, b, c);
  return {operation, attributes, engine};
}

/// A product made ready: the primitive and the memory objects whose pointers each execution sets.
class PreparedProduct {
 public:
  PreparedProduct(const Product& product, const dnnl::engine& engine)
      : product_(product), description_(describe(product, engine)), primitive_(description_) {
    add(DNNL_ARG_SRC, description_.src_desc(), engine);
    add(DNNL_ARG_WEIGHTS, description_.weights_desc(), engine);
    add(DNNL_ARG_DST, description_.dst_desc(), engine);
    add(DNNL_ARG_SCRATCHPAD, description_.scratchpad_desc(), engine);
    if (product.has_bias) add(DNNL_ARG_BIAS, bias_of(product), engine);
    if (product.has_addend)
      add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, description_.dst_desc(), engine);
  }

  void execute(const Arguments& arguments, const dnnl::stream& stream) {
    std::size_t next = 0;
    const auto set = [&](void* pointer) { memories_[next++].set_data_handle(pointer); };
    set(arguments.a);
    set(arguments.b);
    set(arguments.c);
    set(arguments.workspace);
    if (product_.has_bias) set(arguments.bias);
    if (product_.has_addend) set(arguments.addend);
    // The C call takes the arguments as they stand; the C++ one would copy them to the heap first.
    const dnnl_status_t status = dnnl_primitive_execute(
        primitive_.get(), stream.get(), static_cast<int>(arguments_.size()), arguments_.data());
    if (status != dnnl_success)
      throw Error(
          {.where = "oneDNN",
           .what = fmt::format("a product of {} x {} x {} failed with status {}", product_.rows,
                               product_.columns, product_.depth, static_cast<int>(status)),
           .code = ExitCode::outside});
  }

 private:
  void add(int argument, const memory::desc& desc, const dnnl::engine& engine) {
    memories_.emplace_back(desc, engine, nullptr);
    arguments_.push_back({argument, memories_.back().get()});
  }

  Product product_;
  dnnl::matmul::primitive_desc description_;
  dnnl::matmul primitive_;
  std::vector<memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

std::string_view instruction_set() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    default:
      return "baseline";
  }
}

bool has_bfloat16(const dnnl::engine& engine) {
  constexpr std::int64_t some = 16;
  try {
    describe({.rows = some,
              .columns = some,
              .depth = some,
              .dtype = Dtype::bfloat16,
              .result = Dtype::bfloat16},
             engine);
  } catch (const dnnl::error&) {
    return false;
  }
  return true;
}

class OneDnn : public MatmulLibrary {
 public:
  explicit OneDnn(int threads)
      : threads_(threads),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        has_bfloat16_(has_bfloat16(engine_)) {}

  std::string description() const override {
    const dnnl::version_t& version = *dnnl::version();
    return fmt::format("oneDNN {}.{}.{} ({})", version.major, version.minor, version.patch,
                       instruction_set());
  }

  bool can_run(const Kernel& kernel) const override {
    return kernel.dtype() == Dtype::float32 || has_bfloat16_;
  }

  Bytes workspace(const Kernel& kernel) const override {
    const Product product = product_of(kernel);
    const Bytes plain = scratch_of(product);
    return may_have_addend(kernel) ? std::max(plain, scratch_of(with_addend(product))) : plain;
  }

  void prepare(const Kernel& kernel) override {
    set_library_threads(threads_);
    const Product product = product_of(kernel);
    prepared_.try_emplace(product, product, engine_);
    if (may_have_addend(kernel))
      prepared_.try_emplace(with_addend(product), with_addend(product), engine_);
  }

  void run(const Kernel& kernel, const KernelCall& call) override {
    set_library_threads(threads_);
    const Arguments arguments = arguments_of(kernel, call);
    const bool addend = may_have_addend(kernel) && arguments.addend != arguments.c;
    const Product product = product_of(kernel);
    prepared_.at(addend ? with_addend(product) : product).execute(arguments, stream_);
  }

 private:
  Bytes scratch_of(const Product& product) const {
    set_library_threads(threads_);
    const std::size_t bytes = describe(product, engine_).scratchpad_desc().get_size();
    return {static_cast<std::int64_t>(bytes)};
  }

  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  bool has_bfloat16_;
  std::map<Product, PreparedProduct> prepared_;
};

}  // namespace

std::unique_ptr<MatmulLibrary> make_matmul_library(int threads) {
  return std::make_unique<OneDnn>(threads);
}

}  // namespace shardscope::cpu
