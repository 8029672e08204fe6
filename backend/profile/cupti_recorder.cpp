#include "backend/profile/cupti_recorder.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "backend/executor/step_recorder.h"
#include "backend/profile/activity_buffers.h"
#include "backend/profile/cupti_kinds.h"
#include "backend/profile/cupti_library.h"
#include "backend/profile/cupti_records.h"
#include "backend/profile/host_clock.h"
#include "backend/profile/launch_links.h"
#include "core/base/error.h"

namespace shardscope {
namespace {

/// Whose buffers CUPTI fills: its calls for them carry nothing of ours. Between windows too, since
/// CUPTI may give them back late.
std::atomic<ActivityBuffers*> filled_now{nullptr};

void CUPTIAPI give_buffer(std::uint8_t** data, std::size_t* bytes, std::size_t* most_records) {
  ActivityBuffers* buffers = filled_now;
  const std::span<std::uint8_t> empty = buffers ? buffers->request() : std::span<std::uint8_t>();
  *data = empty.data();  // null is an answer since CUDA 12.9: the record is dropped and counted
  *bytes = empty.size();
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* data, std::size_t,
                          std::size_t filled_bytes) {
  if (ActivityBuffers* buffers = filled_now) buffers->completed(data, filled_bytes);
}

std::uint64_t CUPTIAPI host_clock_ns() { return static_cast<std::uint64_t>(monotonic_ns()); }

/// Ids around everything that a step launches, and when its operations were issued. NCCL launches,
/// and creates nodes of graphs, on threads of its own while the thread that issues waits.
class LaunchProbe final : public Probe {
 public:
  LaunchProbe() { stays_.reserve(most_stays); }

  /// None: nothing is recorded.
  void use(const Cupti* library) {
    if (library) stays_.clear();
    library_ = library;
  }
  GraphNodes nodes() const {
    const std::lock_guard lock(mutex_);
    return nodes_;
  }
  std::span<const Stay> stays() const { return stays_; }
  void created(std::uint64_t node) {
    const OperationId operation{operation_.load()};
    const std::lock_guard lock(mutex_);
    if (operation) nodes_.created(node, operation);
  }
  void cloned(std::uint64_t original, std::uint64_t clone) {
    const std::lock_guard lock(mutex_);
    nodes_.cloned(original, clone);
  }

  void begin_step(std::int64_t step) override {
    step_ = static_cast<std::int32_t>(step);
    push();
  }
  void end_step() override {
    pop();
    step_ = 0;
  }
  void begin(OperationId operation) override {
    operation_ = operation.value;
    push();
    if (library_) begin_ns_ = monotonic_ns();
  }
  void end(OperationId) override {
    if (library_ && stays_.size() < most_stays)
      stays_.push_back({place(), begin_ns_, monotonic_ns()});
    pop();
    operation_ = OperationId::none_value;
  }
  /// A capture replaces the graph before.
  void begin_capture() override {
    const std::lock_guard lock(mutex_);
    nodes_ = {};
  }

 private:
  /// Of a window; what follows is linked by ids alone.
  static constexpr std::size_t most_stays = std::size_t{1} << 16;

  LaunchPlace place() const { return {.operation = {operation_.load()}, .step = step_}; }
  void push() const {
    if (library_) library_->push_id(external_kind, external_id_of(place()));
  }
  void pop() const {
    std::uint64_t id = 0;
    if (library_) library_->pop_id(external_kind, &id);
  }

  const Cupti* library_ = nullptr;
  std::atomic<std::uint32_t> operation_{OperationId::none_value};
  std::int32_t step_ = 0;
  std::int64_t begin_ns_ = 0;
  std::vector<Stay> stays_;
  mutable std::mutex mutex_;
  GraphNodes nodes_;
};

constexpr std::array graph_events{CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
                                  CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED};

std::uint64_t id_of(CUgraphNode node) {
  std::uint64_t id = 0;
  cupti().graph_node_id(node, &id);
  return id;
}

void CUPTIAPI hear_of_graphs(void* probe, CUpti_CallbackDomain domain, CUpti_CallbackId event,
                             const void* data) {
  if (domain != CUPTI_CB_DOMAIN_RESOURCE) return;
  const auto* resource = static_cast<const CUpti_ResourceData*>(data);
  const auto* graph = static_cast<const CUpti_GraphData*>(resource->resourceDescriptor);
  auto& launches = *static_cast<LaunchProbe*>(probe);
  if (event == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) launches.created(id_of(graph->node));
  if (event == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED)
    launches.cloned(id_of(graph->originalNode), id_of(graph->node));
}

void require(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return;
  throw Error({.where = "CUPTI", .what = explain(result, call), .code = ExitCode::outside});
}

/// The place of the one profiler that CUPTI serves.
class Subscription {
 public:
  explicit Subscription(LaunchProbe& probe) {
    std::array<char, CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN> other{};
    CUpti_SubscriberParams parameters{};
    parameters.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    parameters.subscriberName = "Shardscope";
    parameters.oldSubscriberName = other.data();
    parameters.oldSubscriberSize = other.size();
    const CUptiResult result = cupti().subscribe(&handle_, hear_of_graphs, &probe, &parameters);
    if (result != CUPTI_SUCCESS) {
      throw Error({.where = "CUPTI",
                   .what = explain(result, "cuptiSubscribe", other.data()),
                   .code = ExitCode::outside});
    }
    for (const auto event : graph_events)
      cupti().enable_callback(1, handle_, CUPTI_CB_DOMAIN_RESOURCE, event);
  }
  ~Subscription() { cupti().unsubscribe(handle_); }
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

 private:
  CUpti_SubscriberHandle handle_{};
};

ClockFinding read_clock() {
  std::array<ClockExchange, 9> exchanges{};
  for (ClockExchange& exchange : exchanges) {
    std::uint64_t theirs = 0;
    exchange.sent_ns = monotonic_ns();
    cupti().get_timestamp(&theirs);
    exchange.received_ns = monotonic_ns();
    exchange.answered_ns = static_cast<std::int64_t>(theirs);
  }
  return {.at_ns = exchanges.back().answered_ns, .offset = offset_of(exchanges)};
}

std::string demangled(const std::string& name) {
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr), &std::free);
  return plain ? plain.get() : name;
}

void note(std::vector<std::string>& notes, std::int64_t count, std::string_view what) {
  if (count > 0) notes.push_back(fmt::format("CUPTI: {} {}", count, what));
}

class CuptiRecorder final : public DeviceRecorder {
 public:
  explicit CuptiRecorder(const CuptiOptions& options) : options_(options) {}
  /// Where it still records, an error is on its way, maybe one of the device: nothing is flushed,
  /// which would wait for it.
  ~CuptiRecorder() override {
    close();
    if (!buffers_) return;
    ActivityBuffers* own = buffers_.get();
    filled_now.compare_exchange_strong(own, nullptr);
    // What CUPTI still has it may still write to.
    if (buffers_->lent() > 0) static_cast<void>(buffers_.release());
  }
  CuptiRecorder(const CuptiRecorder&) = delete;
  CuptiRecorder& operator=(const CuptiRecorder&) = delete;

  Probe& probe() override { return probe_; }

  std::string start() override {
    try {
      open();
      return "";
    } catch (const Error& error) {
      close();
      return error.what();
    }
  }

  DeviceRecording stop() override {
    disable_kinds(cupti());
    // The device is idle: what is incomplete now stays so.
    cupti().flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    std::size_t dropped = 0;
    cupti().dropped_records(nullptr, 0, &dropped);
    const ClockFinding end = read_clock();
    buffers_->wait_until_read();
    close();
    return gather(static_cast<std::int64_t>(dropped), HostClock(start_clock_, end));
  }

 private:
  void open() {
    const Cupti& library = cupti();
    parsed_ = {};
    notes_.clear();
    subscription_ = std::make_unique<Subscription>(probe_);
    if (!buffers_) {
      buffers_ = std::make_unique<ActivityBuffers>(
          options_.buffers, options_.buffer_bytes,
          [this](const ActivityBuffers::Filled& filled) { read(filled); });
    }
    filled_now = buffers_.get();
    // Before anything is recorded: CUPTI's header on cuptiActivityRegisterTimestampCallback.
    on_our_clock_ = library.register_clock(host_clock_ns) == CUPTI_SUCCESS;
    require(library.register_buffers(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks");
    leave_zeroing_to_us();
    // What is still in CUPTI's hands of a window before: it would go on with it.
    library.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    buffers_->wait_until_read();
    buffers_->open_window();
    notes_ = enable_kinds(library, options_.records);
    start_clock_ = read_clock();
    probe_.use(&library);
  }

  /// Else CUPTI would zero every buffer on the thread that launches.
  static void leave_zeroing_to_us() {
    std::uint8_t yes = 1;
    std::size_t bytes = sizeof yes;
    cupti().set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &bytes, &yes);
  }

  void close() {
    probe_.use(nullptr);
    if (!subscription_) return;
    disable_kinds(cupti());
    subscription_.reset();
    if (buffers_) buffers_->close_window();
  }

  /// On the thread of the buffers.
  void read(const ActivityBuffers::Filled& filled) {
    if (filled.is_late) {
      late_ += count_records(filled.bytes, cupti());
      return;
    }
    parse_records(filled.bytes, cupti(),
                  {.most_records = options_.most_records,
                   .keep_calls = options_.records == ProfileRecords::all},
                  parsed_);
  }

  DeviceRecording gather(std::int64_t dropped, const HostClock& clock) {
    link_records(parsed_.records, std::move(parsed_.links), probe_.nodes());
    if (!on_our_clock_) convert(clock);
    link_by_time(parsed_.records, std::move(parsed_.calls), probe_.stays());
    DeviceRecording recording{.records = std::move(parsed_.records),
                              .dropped = dropped + parsed_.not_kept + parsed_.unordered,
                              .clock_residual = on_our_clock_ ? clock.distance() : clock.residual(),
                              .notes = std::move(notes_)};
    for (const std::string& name : parsed_.names.names())
      recording.names.push_back(demangled(name));
    std::ranges::stable_sort(recording.records, std::ranges::less{}, &DeviceRecord::start_ns);
    add_notes(recording, dropped);
    return recording;
  }

  void convert(const HostClock& clock) {
    for (DeviceRecord& record : parsed_.records) {
      if (is_untimed(record)) continue;
      record.start_ns = clock.to_host(record.start_ns);
      record.end_ns = clock.to_host(record.end_ns);
    }
    for (CallMoment& call : parsed_.calls) call.start_ns = clock.to_host(call.start_ns);
  }

  void add_notes(DeviceRecording& recording, std::int64_t dropped) {
    note(recording.notes, dropped, "records were dropped: the buffers were full");
    note(
        recording.notes, buffers_->take_refusals(),
        fmt::format("times a buffer was asked for while all {} of {} were in use", options_.buffers,
                    exact_text(Bytes{static_cast<std::int64_t>(options_.buffer_bytes)})));
    note(recording.notes, parsed_.not_kept,
         fmt::format("records beyond the first {} were not kept", options_.most_records));
    note(recording.notes, parsed_.unordered, "records ended before they started");
    note(recording.notes, std::ranges::count_if(recording.records, is_untimed),
         "records have no times: the device had no room to note them");
    note(recording.notes, parsed_.unknown, "records are of kinds that are not read");
    note(recording.notes, parsed_.broken, "buffers had a rest that could not be read");
    note(recording.notes, static_cast<std::int64_t>(buffers_->lent()),
         "buffers were not given back: what they hold is lost");
    note(recording.notes, late_.exchange(0),
         "records of windows before came when those had been written, and are lost there");
  }

  const CuptiOptions options_;
  LaunchProbe probe_;
  std::unique_ptr<Subscription> subscription_;  ///< none: nothing is recorded
  bool on_our_clock_ = false;
  ClockFinding start_clock_;
  std::vector<std::string> notes_;
  std::atomic<std::int64_t> late_{0};  ///< records that came after their window; not yet told
  ParsedRecords parsed_;               ///< written on the thread of the buffers while it reads
  std::unique_ptr<ActivityBuffers> buffers_;  ///< last: its thread uses what stands above
};

}  // namespace

std::unique_ptr<DeviceRecorder> make_cupti_recorder(const CuptiOptions& options) {
  return std::make_unique<CuptiRecorder>(options);
}

}  // namespace shardscope
