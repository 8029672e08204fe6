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

/// A launch is tied to its operation through the record of the call that made it: of the runtime,
/// or of the driver (cuBLASLt and NCCL). Calls that are enabled one by one give no external
/// correlation (H200, CUDA 13.0), so that all are recorded at every level, and only the highest
/// keeps them.
constexpr std::array kinds{
    Kind{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels", ProfileRecords::kernels, true},
    Kind{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, "operations", ProfileRecords::kernels, true},
    Kind{CUPTI_ACTIVITY_KIND_MEMCPY, "copies", ProfileRecords::kernels},
    Kind{CUPTI_ACTIVITY_KIND_MEMCPY2, "copies between devices", ProfileRecords::kernels},
    Kind{CUPTI_ACTIVITY_KIND_MEMSET, "sets of memory", ProfileRecords::kernels},
    Kind{CUPTI_ACTIVITY_KIND_MEMORY2, "memory that is taken", ProfileRecords::kernels},
    Kind{CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead", ProfileRecords::kernels},
    Kind{CUPTI_ACTIVITY_KIND_RUNTIME, "calls of the runtime", ProfileRecords::kernels, true},
    Kind{CUPTI_ACTIVITY_KIND_DRIVER, "calls of the driver", ProfileRecords::kernels, true},
    Kind{CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "waits", ProfileRecords::all},
    Kind{CUPTI_ACTIVITY_KIND_CUDA_EVENT, "events", ProfileRecords::all},
};

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
  return lacking;
}

void disable_kinds(const Cupti& library) {
  for (const Kind& kind : kinds) library.disable(kind.kind);
  set_details(library, 0);
}

}  // namespace shardscope
