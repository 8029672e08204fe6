// cuFFT, cuSOLVER and what of cuBLAS is no product: sizes of work space, which the caller
// reads, and a kernel on the handle's stream for each call. The operator that asks says what is
// computed. Work space counts as nothing. Signatures: cufftXt.h, cusolverDn.h and
// cublas_api.h of CUDA 13.2; a parameter that is only passed by is `Any`.
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "backend/recorder/device/library_calls.h"

namespace shardscope::recorder {
namespace {

/// Plans of cuFFT are numbers; each has a stream.
class Plans {
 public:
  int add() {
    const std::lock_guard lock(mutex_);
    streams_.push_back(nullptr);
    return static_cast<int>(streams_.size()) - 1;
  }
  void set_stream(int plan, void* stream) {
    const std::lock_guard lock(mutex_);
    if (is_known(plan)) streams_[static_cast<std::size_t>(plan)] = stream;
  }
  void* stream_of(int plan) {
    const std::lock_guard lock(mutex_);
    return is_known(plan) ? streams_[static_cast<std::size_t>(plan)] : nullptr;
  }

 private:
  bool is_known(int plan) const {
    return plan >= 0 && static_cast<std::size_t>(plan) < streams_.size();
  }
  std::mutex mutex_;
  std::vector<void*> streams_;
};

/// Never destroyed: threads of the script may still run while the process ends.
Plans& plans() {
  static Plans* const all = new Plans;
  return *all;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// cuFFT
Status cufftCreate(int* plan) {
  *plan = plans().add();
  return success;
}
Status cufftDestroy(int) { return success; }
Status cufftSetAutoAllocation(int, int) { return success; }
Status cufftSetWorkArea(int, void*) { return success; }
Status cufftSetStream(int plan, void* stream) {
  plans().set_stream(plan, stream);
  return success;
}
Status cufftXtMakePlanMany(int, int, Any, Any, long long, long long, int, Any, long long, long long,
                           int, long long, std::size_t* work_size, int) {
  return nothing_needed(work_size);
}
Status cufftXtExec(int plan, void*, void*, int) {
  launch("cufftXtExec", {}, {}, 0, plans().stream_of(plan));
  return success;
}

// Handles
Status cusolverDnCreate(void** to) { return create_handle(to); }
Status cusolverDnDestroy(void* handle) { return destroy_handle(handle); }
Status cusolverDnSetStream(void* handle, void* stream) { return set_stream(handle, stream); }
Status cusolverDnGetStream(void* handle, void** stream) { return get_stream(handle, stream); }
Status cusolverDnXgesvdjSetTolerance(void*, double) { return success; }
Status cusolverDnXgesvdjSetMaxSweeps(void*, int) { return success; }
Status cusolverDnXgesvdjSetSortEig(void*, int) { return success; }

// Descriptions, which nobody looks into
DESCRIPTION(cusolverDnCreateParams, cusolverDnDestroyParams)
DESCRIPTION(cusolverDnCreateGesvdjInfo, cusolverDnDestroyGesvdjInfo)
DESCRIPTION(cusolverDnCreateSyevjInfo, cusolverDnDestroySyevjInfo)

#define OF_REAL_AND_COMPLEX(MACRO, start, real, complex) \
  MACRO(start##S##real) MACRO(start##D##real) MACRO(start##C##complex) MACRO(start##Z##complex)

// cuSOLVER: elements or bytes of work space, by how many parameters come before them
#define FIFTH(name) \
  Status name(Any, Any, Any, Any, int* elements) { return nothing_needed(elements); }
#define SIXTH(name) \
  Status name(Any, Any, Any, Any, Any, int* elements) { return nothing_needed(elements); }
#define EIGHTH(name) \
  Status name(Any, Any, Any, Any, Any, Any, Any, int* elements) { return nothing_needed(elements); }
#define TWELFTH(name)                                                                 \
  Status name(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, int* elements) { \
    return nothing_needed(elements);                                                  \
  }
#define FOURTH(name) \
  Status name(Any, Any, Any, int* elements) { return nothing_needed(elements); }
#define THIRTEENTH(name)                                                                   \
  Status name(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, int* elements) { \
    return nothing_needed(elements);                                                       \
  }
#define SEVENTEENTH(name)                                                                     \
  Status name(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, \
              int* elements) {                                                                \
    return nothing_needed(elements);                                                          \
  }
OF_ALL_TYPES(FIFTH, cusolverDn, sytrf_bufferSize)
OF_ALL_TYPES(SIXTH, cusolverDn, potrf_bufferSize)
OF_ALL_TYPES(SIXTH, cusolverDn, getrf_bufferSize)
OF_ALL_TYPES(SIXTH, cusolverDn, geqrf_bufferSize)
OF_REAL_AND_COMPLEX(EIGHTH, cusolverDn, orgqr_bufferSize, ungqr_bufferSize)
OF_REAL_AND_COMPLEX(EIGHTH, cusolverDn, syevd_bufferSize, heevd_bufferSize)
OF_REAL_AND_COMPLEX(EIGHTH, cusolverDn, syevjBatched_bufferSize, heevjBatched_bufferSize)
OF_REAL_AND_COMPLEX(TWELFTH, cusolverDn, ormqr_bufferSize, unmqr_bufferSize)
OF_ALL_TYPES(FOURTH, cusolverDn, gesvd_bufferSize)
OF_ALL_TYPES(THIRTEENTH, cusolverDn, gesvdj_bufferSize)
OF_ALL_TYPES(TWELFTH, cusolverDn, gesvdjBatched_bufferSize)
OF_ALL_TYPES(SEVENTEENTH, cusolverDn, gesvdaStridedBatched_bufferSize)

Status cusolverDnXpotrf_bufferSize(Any, Any, Any, Any, Any, Any, Any, Any, std::size_t* on_device,
                                   std::size_t* on_host) {
  *on_device = *on_host = 0;
  return success;
}
Status cusolverDnXgeqrf_bufferSize(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any,
                                   std::size_t* on_device, std::size_t* on_host) {
  *on_device = *on_host = 0;
  return success;
}
Status cusolverDnXsyevd_bufferSize(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any,
                                   std::size_t* on_device, std::size_t* on_host) {
  *on_device = *on_host = 0;
  return success;
}
Status cusolverDnXsyevBatched_bufferSize(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any,
                                         std::size_t* on_device, std::size_t* on_host) {
  *on_device = *on_host = 0;
  return success;
}
Status cusolverDnXsytrs_bufferSize(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any,
                                   std::size_t* on_device, std::size_t* on_host) {
  *on_device = *on_host = 0;
  return success;
}
Status cusolverDnXgeev_bufferSize(Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any,
                                  Any, Any, Any, Any, std::size_t* on_device,
                                  std::size_t* on_host) {
  *on_device = *on_host = 0;
  return success;
}

// Their work
OF_ALL_TYPES(KERNEL, cusolverDn, potrf)
OF_ALL_TYPES(KERNEL, cusolverDn, potrfBatched)
OF_ALL_TYPES(KERNEL, cusolverDn, potrs)
OF_ALL_TYPES(KERNEL, cusolverDn, potrsBatched)
OF_ALL_TYPES(KERNEL, cusolverDn, getrf)
OF_ALL_TYPES(KERNEL, cusolverDn, getrs)
OF_ALL_TYPES(KERNEL, cusolverDn, geqrf)
OF_ALL_TYPES(KERNEL, cusolverDn, sytrf)
OF_REAL_AND_COMPLEX(KERNEL, cusolverDn, orgqr, ungqr)
OF_REAL_AND_COMPLEX(KERNEL, cusolverDn, ormqr, unmqr)
OF_REAL_AND_COMPLEX(KERNEL, cusolverDn, syevd, heevd)
OF_REAL_AND_COMPLEX(KERNEL, cusolverDn, syevjBatched, heevjBatched)
OF_ALL_TYPES(KERNEL, cusolverDn, gesvd)
OF_ALL_TYPES(KERNEL, cusolverDn, gesvdj)
OF_ALL_TYPES(KERNEL, cusolverDn, gesvdjBatched)
OF_ALL_TYPES(KERNEL, cusolverDn, gesvdaStridedBatched)
KERNEL(cusolverDnXpotrf)
KERNEL(cusolverDnXpotrs)
KERNEL(cusolverDnXgeqrf)
KERNEL(cusolverDnXsyevd)
KERNEL(cusolverDnXsyevBatched)
KERNEL(cusolverDnXsytrs)
KERNEL(cusolverDnXgeev)

// cuBLAS beyond products: factors of many small matrices, triangular systems, vectors
OF_ALL_TYPES(KERNEL, cublas, getrfBatched)
OF_ALL_TYPES(KERNEL, cublas, getrsBatched)
OF_ALL_TYPES(KERNEL, cublas, geqrfBatched)
OF_ALL_TYPES(KERNEL, cublas, gelsBatched)
OF_ALL_TYPES(KERNEL, cublas, trsm_v2)
OF_ALL_TYPES(KERNEL, cublas, trsmBatched)
OF_ALL_TYPES(KERNEL, cublas, gemv_v2)
KERNEL(cublasSdot_v2)
KERNEL(cublasDdot_v2)
KERNEL(cublasDotEx)
KERNEL(cublasCdotu_v2)
KERNEL(cublasCdotc_v2)
KERNEL(cublasZdotu_v2)
KERNEL(cublasZdotc_v2)
}
#pragma GCC visibility pop

}  // namespace shardscope::recorder
