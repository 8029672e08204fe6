// What traces of PyTorch's profiler say of a machine.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/fit/observations.h"
#include "traces/import/imported_trace.h"

namespace shardscope {

/// What a kernel of another program does, by its name.
enum class KernelClass { product, attention, memory_bound };
std::string_view name_of(KernelClass kernel_class);

/// cuBLAS, CUTLASS, cuDNN's and Triton's products hold gemm, cublas, cutlass, nvjet, wgmma or
/// "mm_"; attention holds flash, fmha, attention or sdpa, and goes first; the rest is memory-bound.
KernelClass class_of_kernel(std::string_view name);

struct TraceObservations {
  RunObservations run;
  std::map<KernelClass, Duration> by_class;  ///< of kernels that are no communication
  std::map<KernelClass, Duration> used;      ///< of those whose work is known
  bool ranks_are_missing = false;            ///< collectives of more ranks than there are traces
};

/// One trace a rank. Products count where the operator that launched them says its shapes
/// ("Input Dims" of aten::mm, addmm and bmm) and they have 1 GFLOP at least, as smaller ones do not
/// reach for the peak; a collective that all ranks show lasts as long as for
/// the rank that came last. Throws Error where no trace has a device's activity.
TraceObservations observe_traces(const std::vector<ImportedTrace>& traces);

}  // namespace shardscope
