// cuBLAS and cuBLASLt: what product is asked for.
#include <cstring>
#include <string>

#include "backend/recorder/device/cuda_abi.h"
#include "backend/recorder/device/device_state.h"
#include "backend/recorder/device/library_handle.h"
#include "backend/recorder/device/virtual_time.h"

namespace shardscope::recorder {
namespace {

constexpr int blas_version = 130401;

/// cublasLtMatrixLayoutOpaque_t is 8 words, which callers may keep on their stack.
struct Layout {
  std::uint64_t rows, columns;
  std::int32_t type, batch;
};
static_assert(sizeof(Layout) <= 64);
struct Description {
  std::int32_t transposes_a = 0, transposes_b = 0, compute_type = 0;
  std::uint32_t epilogue = 0;
};
static_assert(sizeof(Description) <= 256);

/// cublasLtMatmulHeuristicResult_t
struct Heuristic {
  std::uint64_t algorithm[8];
  std::size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

/// Types as cudaDataType has them: 0 float32, 2 float16, 14 bfloat16, 28 and 29 float8.
void product(Stream* stream, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch,
             int type, unsigned epilogue) {
  issue("gemm", stream, "%lld\t%lld\t%lld\t%lld\t%d\t%u", static_cast<long long>(m),
        static_cast<long long>(n), static_cast<long long>(k), static_cast<long long>(batch), type,
        epilogue);
  std::string question = "product";
  for (const std::int64_t number : {m, n, k, batch, static_cast<std::int64_t>(type)})
    question += "\t" + std::to_string(number);
  spend(stream, question);
}

constexpr int float32 = 0, float64 = 1;

/// A complex product has four real ones: rows of 2 k numbers by matrices of 2 k x 2 n.
void complex_product(Stream* stream, std::int64_t m, std::int64_t n, std::int64_t k,
                     std::int64_t batch, int type) {
  product(stream, m, 2 * n, 2 * k, batch, type, 0);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Status cublasCreate_v2(void** to) { return create_handle(to); }
Status cublasDestroy_v2(void* handle) { return destroy_handle(handle); }
Status cublasSetStream_v2(void* handle, void* stream) { return set_stream(handle, stream); }
Status cublasGetStream_v2(void* handle, void** stream) { return get_stream(handle, stream); }
Status cublasSetWorkspace_v2(void*, void*, std::size_t) { return success; }
Status cublasGetVersion_v2(void*, int* to) {
  *to = blas_version;
  return success;
}
Status cublasGetProperty(int property, int* to) {
  *to = property == 0 ? 13 : property == 1 ? 4 : 1;
  return success;
}
Status cublasSetMathMode(void* handle, int mode) {
  library_handle(handle)->math_mode = mode;
  return success;
}
Status cublasGetMathMode(void* handle, int* mode) {
  *mode = library_handle(handle)->math_mode;
  return success;
}
Status cublasSetPointerMode_v2(void* handle, int mode) {
  library_handle(handle)->pointer_mode = mode;
  return success;
}
Status cublasGetPointerMode_v2(void* handle, int* mode) {
  *mode = library_handle(handle)->pointer_mode;
  return success;
}

Status cublasGemmEx(void* handle, int, int, int m, int n, int k, const void*, const void*, int type,
                    int, const void*, int, int, const void*, void*, int, int, int, int) {
  product(stream_of_handle(handle), m, n, k, 1, type, 0);
  return success;
}
Status cublasGemmStridedBatchedEx(void* handle, int, int, int m, int n, int k, const void*,
                                  const void*, int type, int, long long, const void*, int, int,
                                  long long, const void*, void*, int, int, long long, int batch,
                                  int, int) {
  product(stream_of_handle(handle), m, n, k, batch, type, 0);
  return success;
}
Status cublasSgemm_v2(void* handle, int, int, int m, int n, int k, const float*, const float*, int,
                      const float*, int, const float*, float*, int) {
  product(stream_of_handle(handle), m, n, k, 1, float32, 0);
  return success;
}
Status cublasDgemm_v2(void* handle, int, int, int m, int n, int k, const double*, const double*,
                      int, const double*, int, const double*, double*, int) {
  product(stream_of_handle(handle), m, n, k, 1, float64, 0);
  return success;
}
Status cublasSgemmStridedBatched(void* handle, int, int, int m, int n, int k, const float*,
                                 const float*, int, long long, const float*, int, long long,
                                 const float*, float*, int, long long, int batch) {
  product(stream_of_handle(handle), m, n, k, batch, float32, 0);
  return success;
}
Status cublasDgemmStridedBatched(void* handle, int, int, int m, int n, int k, const double*,
                                 const double*, int, long long, const double*, int, long long,
                                 const double*, double*, int, long long, int batch) {
  product(stream_of_handle(handle), m, n, k, batch, float64, 0);
  return success;
}
Status cublasCgemm_v2(void* handle, int, int, int m, int n, int k) {
  complex_product(stream_of_handle(handle), m, n, k, 1, float32);
  return success;
}
Status cublasZgemm_v2(void* handle, int, int, int m, int n, int k) {
  complex_product(stream_of_handle(handle), m, n, k, 1, float64);
  return success;
}
Status cublasCgemmStridedBatched(void* handle, int, int, int m, int n, int k, const void*,
                                 const void*, int, long long, const void*, int, long long,
                                 const void*, void*, int, long long, int batch) {
  complex_product(stream_of_handle(handle), m, n, k, batch, float32);
  return success;
}
Status cublasZgemmStridedBatched(void* handle, int, int, int m, int n, int k, const void*,
                                 const void*, int, long long, const void*, int, long long,
                                 const void*, void*, int, long long, int batch) {
  complex_product(stream_of_handle(handle), m, n, k, batch, float64);
  return success;
}

Status cublasLtCreate(void** to) {
  static int one;
  *to = &one;
  return success;
}
std::size_t cublasLtGetVersion() { return blas_version; }
std::size_t cublasLtGetCudartVersion() { return cuda_version; }
Status cublasLtMatrixLayoutInit_internal(Layout* to, std::size_t, int type, std::uint64_t rows,
                                         std::uint64_t columns, std::int64_t) {
  *to = {.rows = rows, .columns = columns, .type = type, .batch = 1};
  return success;
}
Status cublasLtMatrixLayoutCreate(Layout** to, int type, std::uint64_t rows, std::uint64_t columns,
                                  std::int64_t) {
  *to = new Layout{.rows = rows, .columns = columns, .type = type, .batch = 1};
  return success;
}
Status cublasLtMatrixLayoutDestroy(Layout* layout) {
  delete layout;
  return success;
}
Status cublasLtMatrixLayoutSetAttribute(Layout* layout, int attribute, const void* value,
                                        std::size_t) {
  constexpr int batch_count = 5;
  if (attribute == batch_count) std::memcpy(&layout->batch, value, sizeof layout->batch);
  return success;
}
Status cublasLtMatmulDescInit_internal(Description* to, std::size_t, int compute, int) {
  *to = {};
  to->compute_type = compute;
  return success;
}
Status cublasLtMatmulDescCreate(Description** to, int compute, int) {
  *to = new Description;
  (*to)->compute_type = compute;
  return success;
}
Status cublasLtMatmulDescDestroy(Description* description) {
  delete description;
  return success;
}
Status cublasLtMatmulDescSetAttribute(Description* to, int attribute, const void* value,
                                      std::size_t) {
  constexpr int transposes_a = 3, transposes_b = 4, epilogue = 7;
  if (attribute == transposes_a) std::memcpy(&to->transposes_a, value, 4);
  if (attribute == transposes_b) std::memcpy(&to->transposes_b, value, 4);
  if (attribute == epilogue) std::memcpy(&to->epilogue, value, 4);
  return success;
}
Status cublasLtMatmulPreferenceCreate(void** to) {
  *to = new std::uint64_t[8]();
  return success;
}
Status cublasLtMatmulPreferenceDestroy(void* preference) {
  delete[] static_cast<std::uint64_t*>(preference);
  return success;
}
Status cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, std::size_t) {
  return success;
}
Status cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int,
                                      Heuristic* to, int* count) {
  *to = {};
  to->waves = 1;
  *count = 1;
  return success;
}
Status cublasLtMatmulAlgoCheck(void*, void*, void*, void*, void*, void*, const void*,
                               Heuristic* to) {
  *to = {};
  return success;
}
Status cublasLtMatmul(void*, const Description* description, const void*, const void*,
                      const Layout* a, const void*, const Layout*, const void*, const void*,
                      const Layout*, void*, const Layout* d, const void*, void*, std::size_t,
                      void* stream) {
  const std::uint64_t depth = description->transposes_a != 0 ? a->rows : a->columns;
  product(stream_of(stream), static_cast<std::int64_t>(d->rows),
          static_cast<std::int64_t>(d->columns), static_cast<std::int64_t>(depth), d->batch,
          a->type, description->epilogue);
  return success;
}
}
#pragma GCC visibility pop

}  // namespace shardscope::recorder
