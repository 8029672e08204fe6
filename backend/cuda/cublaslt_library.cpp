#include "backend/cuda/cublaslt_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "core/error.h"

namespace shardscope::cuda {
namespace {

std::string library_name() { return fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR); }

Error missing(std::string what) {
  return Error({.where = library_name(),
                .what = std::move(what),
                .way_out =
                    "install cuBLAS of the CUDA version that this program was built with, or "
                    "put its folder into LD_LIBRARY_PATH",
                .code = ExitCode::outside});
}

template <class Function>
void load(void* library, const char* name, Function& function) {
  void* symbol = dlsym(library, name);
  if (!symbol) throw missing(fmt::format("has no function {}", name));
  function = reinterpret_cast<Function>(symbol);
}

CublasLt load_all() {
  void* library = dlopen(library_name().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw missing(fmt::format("cannot be loaded ({})", dlerror()));
  CublasLt functions{};
  load(library, "cublasLtCreate", functions.create);
  load(library, "cublasLtDestroy", functions.destroy);
  load(library, "cublasLtGetStatusName", functions.status_name);
  load(library, "cublasLtMatmul", functions.matmul);
  load(library, "cublasLtMatmulAlgoGetHeuristic", functions.algorithm_heuristic);
  load(library, "cublasLtMatmulDescCreate", functions.operation_create);
  load(library, "cublasLtMatmulDescDestroy", functions.operation_destroy);
  load(library, "cublasLtMatmulDescSetAttribute", functions.operation_set);
  load(library, "cublasLtMatmulPreferenceCreate", functions.preference_create);
  load(library, "cublasLtMatmulPreferenceDestroy", functions.preference_destroy);
  load(library, "cublasLtMatmulPreferenceSetAttribute", functions.preference_set);
  load(library, "cublasLtMatrixLayoutCreate", functions.layout_create);
  load(library, "cublasLtMatrixLayoutDestroy", functions.layout_destroy);
  return functions;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt functions = load_all();
  return functions;
}

}  // namespace shardscope::cuda
