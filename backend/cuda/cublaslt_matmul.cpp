#include "backend/cuda/cublaslt_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backend/cuda/cublaslt_library.h"
#include "backend/cuda/cuda_workspace.h"
#include "core/base/error.h"

namespace shardscope::cuda {
namespace {

void check_cublas(cublasStatus_t result, std::string_view call) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  throw Error({.where = std::string(call),
               .what = fmt::format("cuBLASLt answers {}", cublaslt().status_name(result)),
               .code = ExitCode::outside});
}

/// Of a linear_forward with a gelu: where the gelu goes; what it is of is the product.
constexpr std::size_t gelu_operand = 4;

/// What cuBLASLt does beside a product, in the same kernel.
enum class Joined : std::uint8_t {
  nothing,
  gelu,             ///< D = gelu_tanh of the product, which is kept, too
  gelu_derivative,  ///< D times the derivative of gelu_tanh
  bias_gradient     ///< sums of A or B over k
};

/// D = op(A) op(B) + beta C as cuBLASLt sees it: columns first. A row-major matrix [r, c] is a
/// column-major one of c rows and r columns.
struct Product {
  bool transpose_a = false, transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_column = 0, b_column = 0, d_column = 0;  ///< elements between stored columns
  std::size_t a = 0, b = 0, d = 0;                        ///< operands of the call
  bool accumulate = false;
  bool has_bias = false, has_residual = false;
  Joined joined = Joined::nothing;
  std::size_t beside = 0;  ///< operand of what is joined: the product itself, or the bias gradient
  Dtype in = Dtype::float32, out = Dtype::float32;
};

cudaDataType_t type_of(Dtype dtype) { return dtype == Dtype::bfloat16 ? CUDA_R_16BF : CUDA_R_32F; }

/// In float32 the gelu stays a kernel of ours: how near the library's tanh comes it does not say.
/// `column`: elements between those of the product that is kept (cublasLt.h 13.0,
/// CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: a multiple of 8).
template <LinearKernel K>
bool joins_gelu(const K& kernel, std::int64_t column) {
  return kernel.has_gelu && kernel.dtype == Dtype::bfloat16 && column % 8 == 0;
}

Product product_of(const LinearForwardKernel& kernel) {
  return {.transpose_a = kernel.layout == WeightLayout::out_in,
          .m = kernel.out,
          .n = kernel.rows,
          .k = kernel.in,
          .a_column = kernel.layout == WeightLayout::out_in ? kernel.in : kernel.out,
          .b_column = kernel.in,
          .d_column = kernel.out_row(),
          .a = 1,
          .b = 0,
          .d = kernel.has_gelu ? std::size_t{5} : std::size_t{4},
          .has_bias = kernel.has_bias,
          .has_residual = kernel.has_residual,
          .joined = joins_gelu(kernel, kernel.out_row()) ? Joined::gelu : Joined::nothing,
          .beside = 5,
          .in = kernel.dtype,
          .out = kernel.dtype};
}

Product product_of(const LinearBackwardInputKernel& kernel) {
  return {.transpose_a = kernel.layout == WeightLayout::in_out,
          .m = kernel.in,
          .n = kernel.rows,
          .k = kernel.out,
          .a_column = kernel.layout == WeightLayout::out_in ? kernel.in : kernel.out,
          .b_column = kernel.out_row(),
          .d_column = kernel.in,
          .a = 1,
          .b = 0,
          .d = 2,
          .accumulate = kernel.accumulate_input,
          .joined = joins_gelu(kernel, kernel.in) ? Joined::gelu_derivative : Joined::nothing,
          .beside = 3,
          .in = kernel.dtype,
          .out = kernel.dtype};
}

Product product_of(const LinearBackwardWeightKernel& kernel) {
  const bool out_in = kernel.layout == WeightLayout::out_in;
  // It overwrites; what is added up over micro-batches is a kernel of its own.
  const bool joins_bias = kernel.has_bias && !kernel.accumulate;
  return {.transpose_b = true,
          .m = out_in ? kernel.in : kernel.out,
          .n = out_in ? kernel.out : kernel.in,
          .k = kernel.rows,
          .a_column = out_in ? kernel.in : kernel.out_row(),
          .b_column = out_in ? kernel.out_row() : kernel.in,
          .d_column = out_in ? kernel.in : kernel.out,
          .a = out_in ? std::size_t{0} : std::size_t{1},
          .b = out_in ? std::size_t{1} : std::size_t{0},
          .d = 2,
          .accumulate = kernel.accumulate,
          .joined = joins_bias ? Joined::bias_gradient : Joined::nothing,
          .beside = 3,
          .in = kernel.dtype,
          .out = kernel.gradient_dtype};
}

/// The same without what is joined to it.
Product alone(Product product) {
  product.joined = Joined::nothing;
  return product;
}

/// cublasLtEpilogue_t by what is joined; of the gelu with the bias, if there is one.
cublasLtEpilogue_t epilogue_of(const Product& product) {
  switch (product.joined) {
    case Joined::nothing:
      return product.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Joined::gelu:
      return product.has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Joined::gelu_derivative:
      return CUBLASLT_EPILOGUE_DGELU;
    case Joined::bias_gradient:
      // dy is B where the weight lies as [out, in].
      return product.b == 1 ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

Product product_of(const Kernel& kernel) {
  if (const auto* forward = kernel.get_if<LinearForwardKernel>()) return product_of(*forward);
  if (const auto* backward = kernel.get_if<LinearBackwardInputKernel>())
    return product_of(*backward);
  return product_of(kernel.get<LinearBackwardWeightKernel>());
}

using Operation =
    std::unique_ptr<cublasLtMatmulDescOpaque_t, decltype(CublasLt::operation_destroy)>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, decltype(CublasLt::layout_destroy)>;
using Preference =
    std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, decltype(CublasLt::preference_destroy)>;

Layout make_layout(Dtype dtype, std::int64_t rows, std::int64_t columns, std::int64_t column) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_cublas(cublaslt().layout_create(&layout, type_of(dtype), static_cast<std::uint64_t>(rows),
                                        static_cast<std::uint64_t>(columns), column),
               "cublasLtMatrixLayoutCreate");
  return {layout, cublaslt().layout_destroy};
}

/// What every operand starts on at least, in bytes, unless its rows themselves do not.
constexpr std::uint32_t operand_alignment = 16;
/// What a workspace must start on: an H200 with CUDA 13.0 refuses some algorithms on less
/// (CUBLAS_STATUS_INVALID_VALUE), and the arena gives 64.
constexpr std::uintptr_t workspace_alignment = 256;
constexpr std::uint64_t usable_workspace =
    static_cast<std::uint64_t>(cublaslt_workspace.count) - workspace_alignment;
/// For the choice of the algorithm, which reads an alignment off an address and nothing else
/// (cublasLt.h 13.0, CUBLASLT_MATMUL_DESC_BIAS_POINTER).
constexpr std::uintptr_t some_address = operand_alignment;

template <class Value>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check_cublas(cublaslt().operation_set(operation, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
}

Operation make_operation(const Product& product) {
  cublasLtMatmulDesc_t operation = nullptr;
  check_cublas(cublaslt().operation_create(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "cublasLtMatmulDescCreate");
  Operation owned(operation, cublaslt().operation_destroy);
  const auto transposed = [](bool yes) { return yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, transposed(product.transpose_a));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, transposed(product.transpose_b));
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(product));
  if (product.joined == Joined::gelu || product.joined == Joined::gelu_derivative) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.d_column);
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, type_of(product.out));
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, some_address);
  }
  if (product.has_bias || product.joined == Joined::bias_gradient) {
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
        type_of(product.has_bias ? product.in : product.out));
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, some_address);
  }
  return owned;
}

void* aligned_workspace(void* memory) {
  const auto beyond = reinterpret_cast<std::uintptr_t>(memory) % workspace_alignment;
  return static_cast<std::byte*>(memory) + (workspace_alignment - beyond) % workspace_alignment;
}

template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         Value value) {
  check_cublas(cublaslt().preference_set(preference, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
}

/// Not in place, where the order is not fixed, and not in the output's type, which would round
/// partial products.
constexpr std::uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

Preference make_preference() {
  cublasLtMatmulPreference_t preference = nullptr;
  check_cublas(cublaslt().preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  Preference owned(preference, cublaslt().preference_destroy);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, usable_workspace);
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction_schemes);
  // Unless told, it takes 256 for granted; the arena gives 64.
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, operand, operand_alignment);
  return owned;
}

}  // namespace

struct CublasLtMatmul::Library {
  struct Plan {
    Kernel kernel;
    Product product;
    Operation operation;
    Layout a, b, d;
    cublasLtMatmulAlgo_t algorithm;
  };

  Library() { check_cublas(cublaslt().create(&handle), "cublasLtCreate"); }
  ~Library() { cublaslt().destroy(handle); }

  Plan* find(const Kernel& kernel) {
    const auto found = std::find_if(plans.begin(), plans.end(),
                                    [&](const auto& plan) { return plan->kernel == kernel; });
    return found == plans.end() ? nullptr : found->get();
  }

  static Plan make_plan(const Kernel& kernel, const Product& p) {
    return {.kernel = kernel,
            .product = p,
            .operation = make_operation(p),
            .a = p.transpose_a ? make_layout(p.in, p.k, p.m, p.a_column)
                               : make_layout(p.in, p.m, p.k, p.a_column),
            .b = p.transpose_b ? make_layout(p.in, p.n, p.k, p.b_column)
                               : make_layout(p.in, p.k, p.n, p.b_column),
            .d = make_layout(p.out, p.m, p.n, p.d_column),
            .algorithm = {}};
  }

  /// Null where the library has no algorithm for it.
  std::unique_ptr<Plan> plan_of(const Kernel& kernel, const Product& product) const {
    auto plan = std::make_unique<Plan>(make_plan(kernel, product));
    const Preference preference = make_preference();
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t status = cublaslt().algorithm_heuristic(
        handle, plan->operation.get(), plan->a.get(), plan->b.get(), plan->d.get(), plan->d.get(),
        preference.get(), 1, &result, &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED && status != CUBLAS_STATUS_INVALID_VALUE)
      check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
    if (status != CUBLAS_STATUS_SUCCESS || found == 0) return nullptr;
    plan->algorithm = result.algo;
    return plan;
  }

  cublasLtHandle_t handle = nullptr;
  std::vector<std::unique_ptr<Plan>> plans;
};

CublasLtMatmul::CublasLtMatmul() : library_(std::make_unique<Library>()) {}
CublasLtMatmul::~CublasLtMatmul() = default;

void CublasLtMatmul::prepare(const Kernel& kernel) {
  if (library_->find(kernel)) return;
  const Product product = product_of(kernel);
  std::unique_ptr<Library::Plan> plan = library_->plan_of(kernel, product);
  if (!plan && product.joined != Joined::nothing) plan = library_->plan_of(kernel, alone(product));
  if (!plan) {
    throw Error({.where = "cuBLASLt",
                 .what = fmt::format("knows no way to multiply {} x {} by {} x {}", product.m,
                                     product.k, product.k, product.n),
                 .code = ExitCode::outside});
  }
  library_->plans.push_back(std::move(plan));
}

bool CublasLtMatmul::is_joined(const Kernel& kernel) const {
  return library_->find(kernel)->product.joined != Joined::nothing;
}

void CublasLtMatmul::run(const Kernel& kernel, const KernelCall& call, cudaStream_t stream) {
  Library::Plan& plan = *library_->find(kernel);
  const Product& p = plan.product;
  const auto operand = [&](std::size_t index) { return call.operands[index]; };
  if (p.has_bias)
    set(plan.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        static_cast<const void*>(operand(2)));
  if (p.joined != Joined::nothing)
    set(plan.operation.get(),
        p.joined == Joined::bias_gradient ? CUBLASLT_MATMUL_DESC_BIAS_POINTER
                                          : CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
        operand(p.beside));
  void* d = operand(p.joined == Joined::gelu ? gelu_operand : p.d);
  const void* c = p.has_residual ? operand(3) : d;
  const float one = 1, beta = p.accumulate || p.has_residual ? 1.0f : 0.0f;
  check_cublas(cublaslt().matmul(library_->handle, plan.operation.get(), &one, operand(p.a),
                                 plan.a.get(), operand(p.b), plan.b.get(), &beta, c, plan.d.get(),
                                 d, plan.d.get(), &plan.algorithm,
                                 aligned_workspace(call.operands.back()), usable_workspace, stream),
               "cublasLtMatmul");
}

}  // namespace shardscope::cuda
