#include "backend/profile/cupti_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "backend/base/shared_library.h"

namespace shardscope {
namespace {

/// The toolkit's installer leaves CUPTI in a folder of its own, which the loader does not search.
const std::vector<std::string>& usual_folders() {
  static const std::vector<std::string> folders{"/usr/local/cuda/extras/CUPTI/lib64",
                                                "/usr/local/cuda/lib64"};
  return folders;
}

Cupti load_all() {
  const cuda::SharedLibrary library(
      fmt::format("libcupti.so.{}", CUPTI_API_VERSION / 10000), usual_folders(),
      "install the CUPTI of this CUDA version, or put its folder (lib64, or extras/CUPTI/lib64, of "
      "the toolkit) into LD_LIBRARY_PATH");
  Cupti functions{};
  library.load("cuptiGetVersion", functions.get_version);
  library.load("cuptiGetResultString", functions.result_name);
  library.load("cuptiGetTimestamp", functions.get_timestamp);
  library.load("cuptiGetGraphNodeId", functions.graph_node_id);
  library.load("cuptiGetCallbackName", functions.callback_name);
  library.load("cuptiSubscribe_v2", functions.subscribe);
  library.load("cuptiUnsubscribe", functions.unsubscribe);
  library.load("cuptiEnableCallback", functions.enable_callback);
  library.load("cuptiActivityRegisterCallbacks", functions.register_buffers);
  library.load("cuptiActivityRegisterTimestampCallback", functions.register_clock);
  library.load("cuptiActivitySetAttribute", functions.set_attribute);
  library.load("cuptiActivityEnable", functions.enable);
  library.load("cuptiActivityDisable", functions.disable);
  library.load("cuptiActivityEnableAllocationSource", functions.enable_allocation_source);
  library.load("cuptiActivityEnableCudaEventDeviceTimestamps", functions.enable_event_times);
  library.load("cuptiActivityPushExternalCorrelationId", functions.push_id);
  library.load("cuptiActivityPopExternalCorrelationId", functions.pop_id);
  library.load("cuptiActivityFlushAll", functions.flush_all);
  library.load("cuptiActivityGetNumDroppedRecords", functions.dropped_records);
  library.load("cuptiActivityGetNextRecord", functions.next_record);
  return functions;
}

struct Explanation {
  CUptiResult result;
  std::string_view text;
};

constexpr std::array explanations{
    Explanation{CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
                "another profiler is at work in this process, and CUPTI serves one at a time: run "
                "without it (nsys, ncu, compute-sanitizer, another library that uses CUPTI), or "
                "profile with it, where our NVTX ranges name the operations"},
    Explanation{CUPTI_ERROR_INSUFFICIENT_PRIVILEGES,
                "the driver does not let this user profile; load it with "
                "NVreg_RestrictProfilingToAdminUsers=0, or give the process CAP_SYS_ADMIN "
                "(activity records seldom need either, hardware counters always)"},
    Explanation{CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES,
                "the virtual GPU does not allow profiling; its host's administrator can turn it on "
                "(vGPU: enable_profiling)"},
    Explanation{CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED, "not supported on a virtual GPU"},
    Explanation{CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED,
                "not supported while the GPU runs in confidential mode"},
    Explanation{CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED, "not supported on this part of a GPU (MIG)"},
    Explanation{CUPTI_ERROR_NOT_INITIALIZED, "CUPTI could not start: is there a driver?"},
    Explanation{CUPTI_ERROR_UNKNOWN, "CUPTI could not start: is there a driver?"},
};

}  // namespace

const Cupti& cupti() {
  static const Cupti functions = load_all();
  return functions;
}

std::string explain(CUptiResult result, const std::string& call, const std::string& other) {
  const auto* found = std::ranges::find(explanations, result, &Explanation::result);
  const std::string who = other.empty() ? "" : fmt::format(" (it calls itself \"{}\")", other);
  if (found != explanations.end()) return fmt::format("{}: {}{}", call, found->text, who);
  const char* name = nullptr;
  const bool named = cupti().result_name(result, &name) == CUPTI_SUCCESS && name != nullptr;
  return fmt::format("{}: {}{}", call, named ? name : fmt::format("error {}", int{result}), who);
}

std::string cupti_version_text() {
  std::uint32_t version = 0;
  cupti().get_version(&version);
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace shardscope
