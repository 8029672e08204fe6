// cuBLASLt, loaded when it is first wanted: it is large, and most runs of the program never ask a
// GPU.
#pragma once

#include <cublasLt.h>

namespace shardscope::cuda {

/// The functions that we call, under their own names without the prefix.
struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusName) status_name;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) algorithm_heuristic;
  decltype(&cublasLtMatmulDescCreate) operation_create;
  decltype(&cublasLtMatmulDescDestroy) operation_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) operation_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
};

/// Throws Error (ExitCode::outside) where the library or one of its functions is missing.
const CublasLt& cublaslt();

}  // namespace shardscope::cuda
