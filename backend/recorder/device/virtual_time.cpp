#include "backend/recorder/device/virtual_time.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <vector>

#include "backend/recorder/device/cost_client.h"
#include "backend/recorder/device/log.h"

namespace shardscope::recorder {
namespace {

constexpr std::int64_t look_ns = 1000;

std::atomic<std::int64_t> clock_ns = 0;
thread_local bool has_issued = false;  ///< this thread put something on the device

/// Kernels of one call that follow each other on a stream.
struct Launched {
  Stream* stream;
  Graph* graph;            ///< that they are captured into; null: none
  std::int64_t operation;  ///< `Stream::last_operation` while nothing came after it
  int launches;
};

struct Call {
  bool is_node = false, has_inner = false;
  std::uint32_t name = 0, inputs = 0;
  std::vector<Launched> kernels;
};
thread_local std::deque<Call> running;
thread_local bool is_autograds = false;  ///< this thread has run a node

void host_takes(std::int64_t ns) {
  has_issued = true;
  clock_ns += ns;
}

std::int64_t next_operation() {
  static std::atomic<std::int64_t> count = 0;
  return ++count;
}

/// An operation reaches its stream.
std::int64_t issue_on(Stream* stream) {
  host_takes(host_costs().launch_ns);
  if (stream->capture != nullptr) return stream->last_operation = next_operation();
  stream->busy_until_ns = std::max(stream->busy_until_ns, host_ns());
  return stream->last_operation = next_operation();
}

/// What is captured costs when its graph is launched.
std::int64_t& busy_of(Stream* stream, Graph* graph) {
  return graph == nullptr ? stream->busy_until_ns : graph->cost_ns;
}

/// The innermost one, but of attention the one that PyTorch dispatched on: as core/recording has
/// it.
Call* call_of_kernel() {
  if (running.empty() || text_of(running.back().name).starts_with("CompiledFunction"))
    return nullptr;
  for (Call& call : running)
    if (text_of(call.name).starts_with("aten::_scaled_dot_product_")) return &call;
  return &running.back();
}

std::uint32_t number_in(std::string_view& fields) {
  const std::size_t tab = std::min(fields.find('\t'), fields.size());
  const auto number =
      static_cast<std::uint32_t>(std::atol(std::string(fields.substr(0, tab)).c_str()));
  fields.remove_prefix(std::min(tab + 1, fields.size()));
  return number;
}

void begin_call(std::string_view fields, bool is_node) {
  if (!running.empty()) running.back().has_inner = true;
  is_autograds = is_autograds || is_node;
  Call call{.is_node = is_node, .kernels = {}};
  call.name = number_in(fields);
  call.inputs = number_in(fields);
  running.push_back(std::move(call));
}

/// The script goes on when this thread has done its work: its own, and those of autograd, as
/// core/recording has it. A thread that pins batches works beside the script.
bool holds_up_script() { return is_autograds || gettid() == getpid(); }

/// Of an operator without an operation: the time to dispatch it, or that of its work on the host's
/// memory.
std::int64_t host_time_ns(const Call& call, std::uint32_t outputs, bool is_view) {
  const auto has_host_tensor = [](std::uint32_t text) {
    return std::string_view(text_of(text)).find("cpu:") != std::string_view::npos;
  };
  if (is_view || !holds_up_script() || !(has_host_tensor(call.inputs) || has_host_tensor(outputs)))
    return host_costs().dispatch_ns;
  return cost_ns(
      {.kind = "host", .fields = {text_of(call.name), text_of(call.inputs), text_of(outputs)}});
}

void end_call(std::string_view fields) {
  if (running.empty()) return;
  const Call call = std::move(running.back());
  running.pop_back();
  const std::uint32_t outputs = number_in(fields);
  for (const Launched& kernels : call.kernels)
    busy_of(kernels.stream, kernels.graph) +=
        cost_ns({.kind = call.is_node ? "node" : "call",
                 .fields = {text_of(call.name), text_of(call.inputs), text_of(outputs),
                            std::to_string(kernels.launches)}});
  if (!call.has_inner && !call.is_node && call.kernels.empty())
    host_takes(host_time_ns(call, outputs, fields == "view"));
}

}  // namespace

std::int64_t host_ns() { return clock_ns; }

void host_waits_until(std::int64_t ns) {
  std::int64_t now = clock_ns;
  while (now < ns && !clock_ns.compare_exchange_weak(now, ns)) {
  }
}

void host_looks() {
  if (has_issued) clock_ns += look_ns;
}

void see_call(std::string_view line) {
  if (!is_call(line) || device_time() != DeviceTime::model) return;
  const auto rest_after = [&](std::string_view kind) { return line.substr(kind.size()); };
  if (line.starts_with("op\t")) return begin_call(rest_after("op\t"), false);
  if (line.starts_with("node\t")) return begin_call(rest_after("node\t"), true);
  end_call(rest_after("end\t"));
}

void spend_on_kernel(Stream* stream) {
  if (device_time() != DeviceTime::model) return;
  Call* const call = call_of_kernel();
  if (call == nullptr) return spend(stream, "kernel");
  if (!call->kernels.empty() && call->kernels.back().stream == stream &&
      call->kernels.back().operation == stream->last_operation) {
    ++call->kernels.back().launches;
    return;
  }
  call->kernels.push_back({stream, stream->capture, issue_on(stream), 1});
}

void spend(Stream* stream, const std::string& question) {
  if (device_time() != DeviceTime::model) return;
  issue_on(stream);
  busy_of(stream, stream->capture) += cost_ns({.kind = question, .fields = {}});
  if (!running.empty()) running.back().has_inner = true;
}

void spend_on_graph(Stream* stream, const Graph* graph) {
  if (device_time() != DeviceTime::model) return;
  issue_on(stream);
  stream->busy_until_ns += graph->cost_ns;
}

extern "C" {
/// Of Python's clocks; -1: they are the host's own.
[[gnu::visibility("default")]] long shardscope_clock_ns() {
  if (device_time() != DeviceTime::model) return -1;
  host_looks();
  return host_ns();
}
[[gnu::visibility("default")]] void shardscope_sleep(long ns) { host_waits_until(host_ns() + ns); }
}

}  // namespace shardscope::recorder
