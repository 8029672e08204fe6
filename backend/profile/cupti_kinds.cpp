#include "backend/profile/cupti_kinds.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "core/base/error.h"

namespace shardscope {
namespace {

struct Kind {
  CUpti_ActivityKind kind;
  std::string_view name;
  ProfileRecords from;  ///< the lowest level that has it
  bool needed = false;  ///< without it there is nothing to show
};

/// External correlation works through the records of calls: those that launch work are recorded at
/// every level, all of the runtime's only at the highest.
constexpr std::array kinds{
    Kind{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels", ProfileRecords::kernels, true},
    Kind{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, "operations", ProfileRecords::kernels, true},
    Kind{CUPTI_ACTIVITY_KIND_MEMCPY, "copies", ProfileRecords::kernels},
    Kind{CUPTI_ACTIVITY_KIND_MEMCPY2, "copies between devices", ProfileRecords::kernels},
    Kind{CUPTI_ACTIVITY_KIND_MEMSET, "sets of memory", ProfileRecords::kernels},
    Kind{CUPTI_ACTIVITY_KIND_MEMORY2, "memory that is taken", ProfileRecords::kernels},
    Kind{CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead", ProfileRecords::kernels},
    Kind{CUPTI_ACTIVITY_KIND_RUNTIME, "calls of the runtime", ProfileRecords::all},
    Kind{CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "waits", ProfileRecords::all},
    Kind{CUPTI_ACTIVITY_KIND_CUDA_EVENT, "events", ProfileRecords::all},
};

/// The calls by which our device, cuBLASLt, cuDNN and NCCL queue work; what starts a graph, too.
constexpr std::array runtime_launches{
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_ptsz_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync_v4000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_ptsz_v7000,
};
constexpr std::array driver_launches{
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async,
};

void set_launches(const Cupti& library, std::uint8_t on) {
  // Of a call that this version does not know nothing is lost.
  for (const auto call : runtime_launches) library.enable_runtime_call(call, on);
  for (const auto call : driver_launches) library.enable_driver_call(call, on);
}

/// Before memory and events are recorded at all. What is refused leaves columns empty.
void set_details(const Cupti& library, std::uint8_t on) {
  library.enable_allocation_source(on);
  library.enable_event_times(on);
}

}  // namespace

std::vector<std::string> enable_kinds(const Cupti& library, ProfileRecords level) {
  std::vector<std::string> lacking;
  set_details(library, 1);
  for (const Kind& kind : kinds) {
    if (kind.from > level) continue;
    const CUptiResult result = library.enable(kind.kind);
    if (result == CUPTI_SUCCESS) continue;
    const std::string why = explain(result, "cuptiActivityEnable");
    if (kind.needed) {
      throw Error({.where = "CUPTI",
                   .what = fmt::format("{} cannot be recorded: {}", kind.name, why),
                   .code = ExitCode::outside});
    }
    lacking.push_back(fmt::format("CUPTI: no records of {}: {}", kind.name, why));
  }
  // After the runtime's calls as a whole, which would undo it.
  set_launches(library, 1);
  return lacking;
}

void disable_kinds(const Cupti& library) {
  set_launches(library, 0);
  for (const Kind& kind : kinds) library.disable(kind.kind);
  set_details(library, 0);
}

}  // namespace shardscope
