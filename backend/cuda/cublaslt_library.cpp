#include "backend/cuda/cublaslt_library.h"

#include <fmt/format.h>

#include "backend/base/shared_library.h"

namespace shardscope::cuda {
namespace {

CublasLt load_all() {
  const SharedLibrary library(
      fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR),
      "install cuBLAS of the CUDA version that this program was built with, or put its folder into "
      "LD_LIBRARY_PATH");
  CublasLt functions{};
  library.load("cublasLtCreate", functions.create);
  library.load("cublasLtDestroy", functions.destroy);
  library.load("cublasLtGetStatusName", functions.status_name);
  library.load("cublasLtMatmul", functions.matmul);
  library.load("cublasLtMatmulAlgoGetHeuristic", functions.algorithm_heuristic);
  library.load("cublasLtMatmulDescCreate", functions.operation_create);
  library.load("cublasLtMatmulDescDestroy", functions.operation_destroy);
  library.load("cublasLtMatmulDescSetAttribute", functions.operation_set);
  library.load("cublasLtMatmulPreferenceCreate", functions.preference_create);
  library.load("cublasLtMatmulPreferenceDestroy", functions.preference_destroy);
  library.load("cublasLtMatmulPreferenceSetAttribute", functions.preference_set);
  library.load("cublasLtMatrixLayoutCreate", functions.layout_create);
  library.load("cublasLtMatrixLayoutDestroy", functions.layout_destroy);
  return functions;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt functions = load_all();
  return functions;
}

}  // namespace shardscope::cuda
