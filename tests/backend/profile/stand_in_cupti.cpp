// Stands for libcupti.so: writes records of what the stand-in for a GPU runs, into the buffers that
// it is given, under a lock of its own as CUPTI does, and with its own structs. As CUPTI does, it
// ties a call to the pushed ids only if the call itself is recorded, drops records while it has no
// buffer, and serves one subscriber.
//
// SHARDSCOPE_STAND_IN_CUPTI makes it refuse: "subscribed" (another profiler is there),
// "no_permission" (no kernels), "no_memory" (no records of memory), "own_clock" (its times are its
// own: 5 s ahead of the host's), or be strange: "late" (gives no buffer back before the next flush
// without this), "hung" (a flush waits for a device that does not answer), "new_kind" (adds one
// record of a kind that nobody asked for to each buffer).
#include <cupti.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/backend/cuda/stand_in_device.h"
#include "tests/backend/profile/activity_buffer.h"

namespace {

using shardscope::test::DeviceListener;
using shardscope::test::empty_record;
using shardscope::test::QueuedWork;
using shardscope::test::StandInDevice;

bool is_asked_to(std::string_view fault) {
  const char* text = std::getenv("SHARDSCOPE_STAND_IN_CUPTI");
  return text != nullptr && fault == text;
}

std::uint64_t monotonic_clock() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}
std::uint64_t own_clock() { return monotonic_clock() + 5'000'000'000u; }

/// Of the calling thread: what was pushed and not popped, by kind.
thread_local std::map<CUpti_ExternalCorrelationKind, std::vector<std::uint64_t>> pushed;

constexpr std::uint64_t nodes_of_a_graph = 1'000'000;

class StandInCupti final : public DeviceListener {
 public:
  static StandInCupti& get() {
    static StandInCupti instance;
    return instance;
  }

  CUptiResult subscribe(CUpti_CallbackFunc callback, void* data,
                        CUpti_SubscriberParams* parameters) {
    const std::lock_guard lock(mutex_);
    if (callback_ || is_asked_to("subscribed")) {
      std::strncpy(parameters->oldSubscriberName, "CUPTI for another tool",
                   parameters->oldSubscriberSize);
      return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    }
    callback_ = callback;
    callback_data_ = data;
    StandInDevice::get().tell(this);
    return CUPTI_SUCCESS;
  }
  void unsubscribe() {
    const std::lock_guard lock(mutex_);
    callback_ = nullptr;
    events_.clear();
  }
  void hear(CUpti_CallbackId event, bool yes) {
    if (yes)
      events_.insert(event);
    else
      events_.erase(event);
  }

  void use(CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete) {
    request_ = request;
    complete_ = complete;
  }
  void use(CUpti_TimestampCallbackFunc clock) { clock_ = clock; }
  std::uint64_t now() const { return clock_ ? clock_() : own_clock(); }

  void enable(CUpti_ActivityKind kind, bool yes) {
    const std::lock_guard lock(mutex_);
    if (yes)
      kinds_.insert(kind);
    else
      kinds_.erase(kind);
  }

  void flush() {
    const std::lock_guard lock(mutex_);
    if (is_asked_to("hung")) std::this_thread::sleep_for(std::chrono::minutes(2));
    if (is_asked_to("new_kind")) put(empty_record<CUpti_ActivityName>(CUPTI_ACTIVITY_KIND_NAME));
    if (is_asked_to("late")) {
      if (buffer_) late_.push_back({std::exchange(buffer_, nullptr), std::exchange(used_, 0)});
      return;
    }
    for (const auto& [buffer, used] : std::exchange(late_, {}))
      complete_(nullptr, 0, buffer, size_, used);
    if (buffer_) complete_(nullptr, 0, std::exchange(buffer_, nullptr), size_, used_);
    used_ = 0;
  }
  std::size_t take_dropped() { return std::exchange(dropped_, 0); }

  // Of the device.
  std::function<void()> queued(const QueuedWork& work, std::function<void()> run) override {
    const std::lock_guard lock(mutex_);
    if (work.kind == QueuedWork::Kind::unnamed) return run;
    std::uint64_t node = 0;
    std::uint32_t correlation = 0;
    if (work.captured)
      node = created_node();
    else
      correlation = called(work.kind);
    return [this, work, node, correlation, run = std::move(run)] {
      const std::uint64_t start = now();
      run();
      ran(work, node, correlation, start, now());
    };
  }
  void begin_capture() override { nodes_.clear(); }
  void instantiated() override {
    ++graph_;
    for (const std::uint64_t node : nodes_)
      tell(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, node, clone_of(node));
  }
  int graph_launched() override {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(recorded_call(CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000));
  }
  void replays(int launch) override { replayed_by_ = static_cast<std::uint32_t>(launch); }
  void allocated(const void* memory, std::size_t bytes) override {
    bytes_[memory] = bytes;
    moved(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION, memory);
  }
  void released(const void* memory) override {
    moved(CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, memory);
  }

 private:
  bool has(CUpti_ActivityKind kind) const { return kinds_.count(kind) > 0; }

  template <class Raw>
  void write(const Raw& raw) {
    const std::lock_guard lock(mutex_);
    if (!has(raw.kind)) return;
    put(raw);
  }
  template <class Raw>
  void put(const Raw& raw) {
    if (buffer_ && used_ + sizeof raw > size_) flush();
    if (!buffer_) {
      std::size_t most = 0;
      request_(&buffer_, &size_, &most);
    }
    if (!buffer_ || sizeof raw > size_) {
      ++dropped_;
      return;
    }
    std::memcpy(buffer_ + used_, &raw, sizeof raw);
    used_ += sizeof raw;
  }

  std::uint32_t called(QueuedWork::Kind kind) {
    if (kind == QueuedWork::Kind::kernel)
      return recorded_call(CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000);
    return recorded_call(kind == QueuedWork::Kind::copy
                             ? CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020
                             : CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020);
  }
  std::uint32_t recorded_call(CUpti_CallbackId call) {
    ++correlation_;
    if (!has(CUPTI_ACTIVITY_KIND_RUNTIME)) return correlation_;
    for (const auto& [kind, ids] : pushed)
      if (!ids.empty()) write(shardscope::test::link_record(correlation_, ids.back(), kind));
    auto raw = empty_record<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
    raw.cbid = call;
    raw.start = raw.end = now();
    raw.correlationId = correlation_;
    put(raw);
    return correlation_;
  }

  std::uint64_t created_node() {
    nodes_.push_back(++last_node_);
    tell(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, 0, last_node_);
    return last_node_;
  }
  std::uint64_t clone_of(std::uint64_t node) const { return graph_ * nodes_of_a_graph + node; }
  /// A node's handle is its id.
  void tell(CUpti_CallbackId event, std::uint64_t original, std::uint64_t node) {
    if (!callback_ || events_.count(event) == 0) return;
    CUpti_GraphData graph{};
    graph.originalNode = reinterpret_cast<CUgraphNode>(original);
    graph.node = reinterpret_cast<CUgraphNode>(node);
    CUpti_ResourceData data{};
    data.resourceDescriptor = &graph;
    callback_(callback_data_, CUPTI_CB_DOMAIN_RESOURCE, event, &data);
  }

  void ran(const QueuedWork& work, std::uint64_t node, std::uint32_t correlation,
           std::uint64_t start, std::uint64_t end) {
    const std::uint32_t cause = node ? replayed_by_ : correlation;
    const std::uint64_t clone = node ? clone_of(node) : 0;
    if (work.kind == QueuedWork::Kind::kernel) {
      auto raw = shardscope::test::kernel_record(name_of(work.name), cause, 0, start, end);
      finish(raw, work, clone);
    } else if (work.kind == QueuedWork::Kind::copy) {
      auto raw = empty_record<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY);
      // The runtime's kinds are HtoH 0, HtoD 1, DtoH 2, DtoD 3, and 4, whose direction follows from
      // the addresses: here it is only asked for within the device.
      constexpr std::array<int, 5> kinds{
          CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD,
          CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD,
          CUPTI_ACTIVITY_MEMCPY_KIND_DTOD};
      raw.copyKind = static_cast<std::uint8_t>(kinds.at(static_cast<std::size_t>(work.copy_kind)));
      raw.bytes = work.bytes;
      finish(raw, cause, start, end, work, clone);
    } else {
      auto raw = empty_record<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
      raw.bytes = work.bytes;
      finish(raw, cause, start, end, work, clone);
    }
  }
  template <class Raw>
  void finish(Raw& raw, std::uint32_t cause, std::uint64_t start, std::uint64_t end,
              const QueuedWork& work, std::uint64_t clone) {
    raw.correlationId = cause;
    raw.contextId = 1;
    raw.start = start;
    raw.end = end;
    finish(raw, work, clone);
  }
  template <class Raw>
  void finish(Raw& raw, const QueuedWork& work, std::uint64_t clone) {
    raw.streamId = static_cast<std::uint32_t>(work.stream) + 13;
    raw.graphNodeId = clone;
    raw.graphId = clone ? static_cast<std::uint32_t>(graph_) : 0;
    write(raw);
  }

  /// Shared by all records of a kernel, and there as long as the process.
  const char* name_of(const std::string& name) { return names_.insert(name).first->c_str(); }

  void moved(CUpti_ActivityMemoryOperationType operation, const void* memory) {
    auto raw = empty_record<CUpti_ActivityMemory4>(CUPTI_ACTIVITY_KIND_MEMORY2);
    raw.memoryOperationType = operation;
    raw.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    raw.address = reinterpret_cast<std::uint64_t>(memory);
    raw.bytes = bytes_[memory];
    raw.timestamp = now();
    raw.source = "/opt/somewhere/libstandin.so.1";
    write(raw);
  }

  std::recursive_mutex mutex_;
  CUpti_CallbackFunc callback_ = nullptr;
  void* callback_data_ = nullptr;
  std::set<CUpti_CallbackId> events_;
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  CUpti_TimestampCallbackFunc clock_ = nullptr;
  std::set<CUpti_ActivityKind> kinds_;
  std::vector<std::pair<std::uint8_t*, std::size_t>> late_;  ///< with what they hold
  std::uint8_t* buffer_ = nullptr;
  std::size_t size_ = 0, used_ = 0, dropped_ = 0;
  std::uint32_t correlation_ = 0, replayed_by_ = 0;
  std::vector<std::uint64_t> nodes_;  ///< since the last capture began
  std::uint64_t last_node_ = 0, graph_ = 0;
  std::set<std::string> names_;
  std::map<const void*, std::size_t> bytes_;
};

StandInCupti& library() { return StandInCupti::get(); }

struct Size {
  CUpti_ActivityKind kind;
  std::size_t bytes;
};
constexpr std::array sizes{
    Size{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, sizeof(CUpti_ActivityKernel10)},
    Size{CUPTI_ACTIVITY_KIND_MEMCPY, sizeof(CUpti_ActivityMemcpy6)},
    Size{CUPTI_ACTIVITY_KIND_MEMSET, sizeof(CUpti_ActivityMemset4)},
    Size{CUPTI_ACTIVITY_KIND_RUNTIME, sizeof(CUpti_ActivityAPI)},
    Size{CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, sizeof(CUpti_ActivityExternalCorrelation)},
    Size{CUPTI_ACTIVITY_KIND_MEMORY2, sizeof(CUpti_ActivityMemory4)},
    Size{CUPTI_ACTIVITY_KIND_NAME, sizeof(CUpti_ActivityName)},
};

std::size_t size_of(const std::uint8_t* record) {
  CUpti_ActivityKind kind{};
  std::memcpy(&kind, record, sizeof kind);
  const auto* found = std::ranges::find(sizes, kind, &Size::kind);
  return found == sizes.end() ? 0 : found->bytes;
}

}  // namespace

extern "C" {

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "CUPTI_ERROR_OF_THE_STAND_IN";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetTimestamp(uint64_t* time) {
  *time = library().now();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t* id) {
  *id = reinterpret_cast<std::uint64_t>(node);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, uint32_t, const char** name) {
  *name = "a call of the runtime";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                              void* data, CUpti_SubscriberParams* parameters) {
  *subscriber = nullptr;
  return library().subscribe(callback, data, parameters);
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  library().unsubscribe();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle, CUpti_CallbackDomain,
                                CUpti_CallbackId event) {
  library().hear(event, enable != 0);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  library().use(request, complete);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  const bool refuses = is_asked_to("own_clock");
  library().use(refuses ? nullptr : clock);
  return refuses ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS;
}
CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t*, void*) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && is_asked_to("no_permission"))
    return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  if (kind == CUPTI_ACTIVITY_KIND_MEMORY2 && is_asked_to("no_memory"))
    return CUPTI_ERROR_NOT_COMPATIBLE;
  library().enable(kind, true);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  library().enable(kind, false);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableAllocationSource(uint8_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                   uint64_t id) {
  pushed[kind].push_back(id);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                  uint64_t* last) {
  std::vector<std::uint64_t>& ids = pushed[kind];
  if (ids.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last) *last = ids.back();
  ids.pop_back();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t) {
  library().flush();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = library().take_dropped();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t bytes, CUpti_Activity** record) {
  const auto* last = reinterpret_cast<const std::uint8_t*>(*record);
  std::uint8_t* next = last ? buffer + (last - buffer) + size_of(last) : buffer;
  const std::size_t left = bytes - static_cast<std::size_t>(next - buffer);
  if (left < sizeof(CUpti_Activity)) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  if (size_of(next) == 0) return CUPTI_ERROR_INVALID_KIND;
  if (left < size_of(next)) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

}  // extern "C"
