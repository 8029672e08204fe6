// cuSPARSE: sizes of work space, which the caller reads and which count as nothing, and a kernel on
// the handle's stream for each call. The operator that asks says what is computed. How many
// elements a sum or a product of sparse matrices has is computed, since the caller asks for memory
// by it. Signatures: cusparse.h of CUDA 13.0; a parameter that is only passed by is `Any`.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "backend/recorder/device/library_calls.h"

namespace shardscope::recorder {
namespace {

/// A matrix in rows: numbers of 32 or 64 bits.
struct SparseMatrix {
  std::int64_t rows = 0, columns = 0, elements = 0;
  void *ends = nullptr, *places = nullptr;
  bool is_wide = false;

  std::int64_t end_of(std::int64_t row) const { return at(ends, row + 1); }
  std::int64_t begin_of(std::int64_t row) const { return at(ends, row); }
  std::int64_t column(std::int64_t element) const { return at(places, element); }

 private:
  std::int64_t at(const void* numbers, std::int64_t i) const {
    return is_wide ? static_cast<const std::int64_t*>(numbers)[i]
                   : static_cast<const std::int32_t*>(numbers)[i];
  }
};

/// What the observer computes of integers is no more than this (observer.cpp).
constexpr std::int64_t most_computed = std::int64_t{1} << 22;

using Rows = std::vector<std::vector<std::int64_t>>;  ///< columns of each row

/// Empty where the indices are not what they say that they are.
Rows rows_of(const SparseMatrix& matrix) {
  if (matrix.ends == nullptr || matrix.places == nullptr || matrix.elements > most_computed ||
      matrix.rows > most_computed)
    return {};
  if (matrix.rows == 0 || matrix.begin_of(0) != 0 ||
      matrix.end_of(matrix.rows - 1) != matrix.elements)
    return {};  // nobody computed them
  Rows rows(static_cast<std::size_t>(matrix.rows));
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const std::int64_t begin = matrix.begin_of(row), end = matrix.end_of(row);
    if (begin < 0 || end < begin || end > matrix.elements) return {};
    std::vector<std::int64_t>& columns = rows[static_cast<std::size_t>(row)];
    for (std::int64_t i = begin; i < end; ++i) columns.push_back(matrix.column(i));
    std::sort(columns.begin(), columns.end());
  }
  return rows;
}

std::int64_t elements_of(const Rows& rows) {
  std::int64_t elements = 0;
  for (const auto& columns : rows) elements += static_cast<std::int64_t>(columns.size());
  return elements;
}

Rows sum_of(const Rows& a, const Rows& b) {
  Rows sum(std::min(a.size(), b.size()));
  for (std::size_t row = 0; row < sum.size(); ++row)
    std::set_union(a[row].begin(), a[row].end(), b[row].begin(), b[row].end(),
                   std::back_inserter(sum[row]));
  return sum;
}

/// Empty where it would take too long.
Rows product_of(const Rows& a, const Rows& b) {
  std::int64_t terms = 0;
  Rows product(a.size());
  for (std::size_t row = 0; row < a.size(); ++row) {
    std::vector<std::int64_t>& columns = product[row];
    for (const std::int64_t inner : a[row]) {
      if (inner < 0 || inner >= static_cast<std::int64_t>(b.size())) return {};
      const auto& more = b[static_cast<std::size_t>(inner)];
      terms += static_cast<std::int64_t>(more.size());
      if (terms > most_computed) return {};
      columns.insert(columns.end(), more.begin(), more.end());
    }
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  }
  return product;
}

template <class Number>
void write(const Rows& rows, void* ends, void* places) {
  auto* const end = static_cast<Number*>(ends);
  auto* place = static_cast<Number*>(places);
  Number count = 0;
  if (end != nullptr) end[0] = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (const std::int64_t column : rows[row]) {
      if (place != nullptr) *place++ = static_cast<Number>(column);
      ++count;
    }
    if (end != nullptr) end[row + 1] = count;
  }
}

/// Where nothing is known: that no two terms meet.
std::int64_t most_elements(const SparseMatrix& a, const SparseMatrix& b, const SparseMatrix& c) {
  const std::int64_t of_a_row = b.rows > 0 ? (b.elements + b.rows - 1) / b.rows : 0;
  return std::min(a.elements * of_a_row, c.rows * c.columns);
}

/// Of a product of sparse matrices. The caller asks for the size of its work space first, then for
/// the product, by the same function.
struct SparseProduct {
  bool is_asked = false;
};

SparseMatrix* matrix_at(void* description) { return static_cast<SparseMatrix*>(description); }
const SparseMatrix& matrix_at(Any description) {
  return *static_cast<const SparseMatrix*>(description);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Status cusparseCreate(void** to) { return create_handle(to); }
Status cusparseDestroy(void* handle) { return destroy_handle(handle); }
Status cusparseSetStream(void* handle, void* stream) { return set_stream(handle, stream); }
Status cusparseGetStream(void* handle, void** stream) { return get_stream(handle, stream); }
Status cusparseSetPointerMode(void*, int) { return success; }
const char* cusparseGetErrorString(int) { return "cuSPARSE of a simulated device"; }

// Sparse matrices
constexpr int wide = 3;  ///< CUSPARSE_INDEX_64I
Status cusparseCreateCsr(void** to, std::int64_t rows, std::int64_t columns, std::int64_t elements,
                         void* ends, void* places, void*, int type, int, int, int) {
  *to = new SparseMatrix{.rows = rows,
                         .columns = columns,
                         .elements = elements,
                         .ends = ends,
                         .places = places,
                         .is_wide = type == wide};
  return success;
}
/// Nobody multiplies two of these.
Status cusparseCreateCoo(void** to, std::int64_t rows, std::int64_t columns, std::int64_t elements,
                         void*, void*, void*, int, int, int) {
  *to = new SparseMatrix{.rows = rows, .columns = columns, .elements = elements};
  return success;
}
Status cusparseDestroySpMat(void* matrix) {
  delete matrix_at(matrix);
  return success;
}
Status cusparseSpMatGetSize(Any matrix, std::int64_t* rows, std::int64_t* columns,
                            std::int64_t* elements) {
  const SparseMatrix& is = matrix_at(matrix);
  *rows = is.rows;
  *columns = is.columns;
  *elements = is.elements;
  return success;
}
Status cusparseCsrSetPointers(void* matrix, void* ends, void* places, void*) {
  matrix_at(matrix)->ends = ends;
  matrix_at(matrix)->places = places;
  return success;
}
Status cusparseSpMatSetAttribute(void*, int, void*, std::size_t) { return success; }
Status cusparseCsrSetStridedBatch(void*, int, std::int64_t, std::int64_t) { return success; }
Status cusparseDnMatSetStridedBatch(void*, int, std::int64_t) { return success; }

// Descriptions, which nobody looks into
DESCRIPTION(cusparseCreateDnMat, cusparseDestroyDnMat)
DESCRIPTION(cusparseCreateDnVec, cusparseDestroyDnVec)
DESCRIPTION(cusparseCreateMatDescr, cusparseDestroyMatDescr)
DESCRIPTION(cusparseCreateBsrsm2Info, cusparseDestroyBsrsm2Info)
DESCRIPTION(cusparseCreateBsrsv2Info, cusparseDestroyBsrsv2Info)
DESCRIPTION(cusparseSpSM_createDescr, cusparseSpSM_destroyDescr)
DESCRIPTION(cusparseSpSV_createDescr, cusparseSpSV_destroyDescr)
Status cusparseSetMatDiagType(void*, int) { return success; }
Status cusparseSetMatFillMode(void*, int) { return success; }
Status cusparseSetMatIndexBase(void*, int) { return success; }
Status cusparseSetMatType(void*, int) { return success; }

// Work space
Status cusparseSpMM_bufferSize(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any,
                               std::size_t* bytes) {
  return nothing_needed(bytes);
}
Status cusparseSDDMM_bufferSize(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any,
                                std::size_t* bytes) {
  return nothing_needed(bytes);
}
Status cusparseSpMV_bufferSize(Any, Any, Any, Any, Any, Any, Any, Any, Any, std::size_t* bytes) {
  return nothing_needed(bytes);
}
Status cusparseSpSM_bufferSize(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any,
                               std::size_t* bytes) {
  return nothing_needed(bytes);
}
Status cusparseSpSV_bufferSize(Any, Any, Any, Any, Any, Any, Any, Any, Any, std::size_t* bytes) {
  return nothing_needed(bytes);
}
Status cusparseXcoosort_bufferSizeExt(Any, Any, Any, Any, Any, Any, std::size_t* bytes) {
  return nothing_needed(bytes);
}
Status cusparseXcsrsort_bufferSizeExt(Any, Any, Any, Any, Any, Any, std::size_t* bytes) {
  return nothing_needed(bytes);
}
#define BLOCK_MATRICES(name)                                                                 \
  Status name(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, int* bytes) { \
    return nothing_needed(bytes);                                                            \
  }
#define BLOCK_VECTORS(name)                                                        \
  Status name(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, int* bytes) { \
    return nothing_needed(bytes);                                                  \
  }
#define SUM(name)                                                                                  \
  Status name(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, \
              Any, Any, std::size_t* bytes) {                                                      \
    return nothing_needed(bytes);                                                                  \
  }
OF_ALL_TYPES(BLOCK_MATRICES, cusparse, bsrsm2_bufferSize)
OF_ALL_TYPES(BLOCK_VECTORS, cusparse, bsrsv2_bufferSize)
OF_ALL_TYPES(SUM, cusparse, csrgeam2_bufferSizeExt)

/// No factor has a zero on its diagonal: nobody knows their values.
Status cusparseXbsrsm2_zeroPivot(Any, Any, int* position) {
  *position = -1;
  return success;
}
Status cusparseXbsrsv2_zeroPivot(Any, Any, int* position) {
  *position = -1;
  return success;
}

// Sums and products of two sparse matrices
Status cusparseXcsrgeam2Nnz(void* handle, int rows, int columns, Any, int of_a, void* ends_a,
                            void* places_a, Any, int of_b, void* ends_b, void* places_b, Any,
                            void* ends, int* elements, void*) {
  const Rows sum = sum_of(
      rows_of(
          {.rows = rows, .columns = columns, .elements = of_a, .ends = ends_a, .places = places_a}),
      rows_of({.rows = rows,
               .columns = columns,
               .elements = of_b,
               .ends = ends_b,
               .places = places_b}));
  const std::int64_t counted = sum.empty() ? std::int64_t{of_a} + of_b : elements_of(sum);
  *elements = static_cast<int>(std::min<std::int64_t>(counted, std::numeric_limits<int>::max()));
  write<std::int32_t>(sum, ends, nullptr);
  return run(handle, "cusparseXcsrgeam2Nnz");
}
#define ADD(name)                                                                                \
  Status name(void* handle, int rows, int columns, Any, Any, int of_a, Any, void* ends_a,        \
              void* places_a, Any, Any, int of_b, Any, void* ends_b, void* places_b, Any, Any,   \
              void* ends, void* places, Any) {                                                   \
    const SparseMatrix a{                                                                        \
        .rows = rows, .columns = columns, .elements = of_a, .ends = ends_a, .places = places_a}; \
    const SparseMatrix b{                                                                        \
        .rows = rows, .columns = columns, .elements = of_b, .ends = ends_b, .places = places_b}; \
    write<std::int32_t>(sum_of(rows_of(a), rows_of(b)), ends, places);                           \
    return run(handle, #name);                                                                   \
  }
OF_ALL_TYPES(ADD, cusparse, csrgeam2)

Status cusparseSpGEMM_createDescr(void** to) {
  *to = new SparseProduct;
  return success;
}
Status cusparseSpGEMM_destroyDescr(void* product) {
  delete static_cast<SparseProduct*>(product);
  return success;
}
Status cusparseSpGEMM_workEstimation(void*, Any, Any, Any, Any, Any, Any, void*, Any, Any, Any,
                                     std::size_t* bytes, void*) {
  return nothing_needed(bytes);
}
Status cusparseSpGEMM_compute(void* handle, Any, Any, Any, Any a, Any b, Any, void* c, Any, Any,
                              void* description, std::size_t* bytes, void* work_space) {
  *bytes = 0;
  // A work space of 0 bytes may have no address, too.
  const bool was_asked = std::exchange(static_cast<SparseProduct*>(description)->is_asked, true);
  if (work_space == nullptr && !was_asked) return success;
  const Rows product = product_of(rows_of(matrix_at(a)), rows_of(matrix_at(b)));
  matrix_at(c)->elements = product.empty()
                               ? most_elements(matrix_at(a), matrix_at(b), *matrix_at(c))
                               : elements_of(product);
  return run(handle, "cusparseSpGEMM_compute");
}
Status cusparseSpGEMM_copy(void* handle, Any, Any, Any, Any a, Any b, Any, void* c, Any, Any, Any) {
  const Rows product = product_of(rows_of(matrix_at(a)), rows_of(matrix_at(b)));
  const SparseMatrix& to = *matrix_at(c);
  to.is_wide ? write<std::int64_t>(product, to.ends, to.places)
             : write<std::int32_t>(product, to.ends, to.places);
  return run(handle, "cusparseSpGEMM_copy");
}

// Their work
KERNEL(cusparseSpMM)
KERNEL(cusparseSpMV)
KERNEL(cusparseSDDMM)
KERNEL(cusparseSDDMM_preprocess)
KERNEL(cusparseSpSM_analysis)
KERNEL(cusparseSpSM_solve)
KERNEL(cusparseSpSV_analysis)
KERNEL(cusparseSpSV_solve)
KERNEL(cusparseXcoo2csr)
KERNEL(cusparseXcoosortByRow)
KERNEL(cusparseXcsrsort)
KERNEL(cusparseCreateIdentityPermutation)
OF_ALL_TYPES(KERNEL, cusparse, bsrmm)
OF_ALL_TYPES(KERNEL, cusparse, bsrmv)
OF_ALL_TYPES(KERNEL, cusparse, bsrsm2_analysis)
OF_ALL_TYPES(KERNEL, cusparse, bsrsm2_solve)
OF_ALL_TYPES(KERNEL, cusparse, bsrsv2_analysis)
OF_ALL_TYPES(KERNEL, cusparse, bsrsv2_solve)
}
#pragma GCC visibility pop

}  // namespace shardscope::recorder
