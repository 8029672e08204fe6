#include "backend/calibrate/kernel_timer.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/calibrate/kernel_operands.h"
#include "backend/calibrate/rank_group.h"
#include "core/base/median.h"

namespace shardscope {
namespace {

constexpr std::int64_t least_cache_bytes = 32 << 20;
constexpr std::int64_t most_cache_bytes = 128 << 20;
/// Launches between two marks of a device that runs ahead: a mark costs about as much as a small
/// kernel.
constexpr int most_in_a_row = 10;
constexpr int overhead_launches = 1000;
constexpr int overhead_runs = 11;
/// Kernels beside which the host's own time may show.
constexpr Duration held_up_by_the_host = 50_us;
constexpr Duration sharing_time = 300_ms;
constexpr Kernel sharing_product = LinearForwardKernel{.rows = 512, .in = 384, .out = 1536};
constexpr Kernel nothing = FillZeroKernel{.elements = 16};

/// Twice the last-level cache, as far as the system knows it; a GPU's is smaller than the most.
Bytes more_than_the_caches(bool is_host) {
  const std::int64_t cache = is_host ? sysconf(_SC_LEVEL3_CACHE_SIZE) : most_cache_bytes;
  return Bytes{2 * std::clamp(cache, least_cache_bytes, most_cache_bytes)};
}

bool starts_cold(KernelKind kind) {
  return kind == KernelKind::adamw || kind == KernelKind::sgd || kind == KernelKind::sum_of_squares;
}

}  // namespace

KernelTimer::KernelTimer(Communicator& world, Device& device, const CoreUse& cores)
    : world_(world),
      device_(device),
      timeline_(device.timeline(2)),
      other_data_(device.memory().allocate(more_than_the_caches(device.memory().is_host()))) {
  core_sharing_ = core_sharing(cores);
}

/// What a product takes on average over its median: a call is interrupted or has a core to itself.
double KernelTimer::core_sharing(const CoreUse& cores) {
  if (!device_.memory().is_host() || !cores.are_shared()) return 1;
  device_.prepare(sharing_product);
  const KernelOperands operands(sharing_product, device_);
  const Row row{.kernel = sharing_product, .call = operands.call()};
  time_once(row);
  world_.barrier();
  std::vector<Duration> times;
  const Duration begin = monotonic_now();
  while (monotonic_now() - begin < sharing_time) times.push_back(time_once(row));
  const double mean = (monotonic_now() - begin).seconds() / static_cast<double>(times.size());
  return std::max(1.0, mean_over_ranks(world_, mean / median(times).seconds()));
}

void KernelTimer::empty_caches() {
  const auto half = static_cast<std::size_t>(other_data_->size().count / 2);
  device_.memory().copy(other_data_->data(), {other_data_->data() + half, half});
}

void KernelTimer::keep_as_graph(Row& row) {
  DeviceStreams& streams = device_.streams();
  if (!streams.has_graphs()) return;
  streams.begin_capture();
  for (int i = 0; i < row.length; ++i) device_.run(row.kernel, row.call);
  row.graph = streams.end_capture().graph;
}

/// Of one kernel of the row.
Duration KernelTimer::time_once(const Row& row) {
  if (starts_cold(row.kernel.kind())) empty_caches();
  timeline_->mark(0);
  if (row.graph) {
    row.graph->launch();
  } else {
    for (int i = 0; i < row.length; ++i) device_.run(row.kernel, row.call);
  }
  timeline_->mark(1);
  device_.memory().wait();
  return {timeline_->between(0, 1).ns / row.length};
}

KernelSample KernelTimer::time(const Kernel& kernel, Duration budget) {
  device_.prepare(kernel);
  const KernelOperands operands(kernel, device_);
  Row row{.kernel = kernel, .call = operands.call()};
  world_.barrier();
  const Duration warm = mean_over_ranks(world_, time_once(row));
  const std::int64_t all = budget.ns / std::max<std::int64_t>(warm.ns, 1);
  if (!device_.memory().is_host() && !starts_cold(kernel.kind())) {
    row.length = static_cast<int>(std::clamp<std::int64_t>(all / 3, 1, most_in_a_row));
    if (warm < held_up_by_the_host) keep_as_graph(row);
  }
  const std::int64_t fits = all / row.length;
  std::vector<Duration> times(static_cast<std::size_t>(std::clamp<std::int64_t>(fits, 3, 25)));
  for (Duration& time : times) time = time_once(row);
  const Duration time = Duration::from_seconds(median(times).seconds() * core_sharing_);
  return {kernel, std::max(mean_over_ranks(world_, time), Duration{1})};
}

Duration KernelTimer::launch_overhead() {
  if (device_.memory().is_host()) return time(nothing, 1_ms).time;
  device_.prepare(nothing);
  const KernelOperands operands(nothing, device_);
  time_once({.kernel = nothing, .call = operands.call()});
  const Duration begin = monotonic_now();
  for (int i = 0; i < overhead_launches; ++i) device_.run(nothing, operands.call());
  const Duration all = monotonic_now() - begin;
  device_.memory().wait();
  return {all.ns / overhead_launches};
}

std::optional<Duration> KernelTimer::graph_overhead() {
  device_.prepare(nothing);
  const KernelOperands operands(nothing, device_);
  Row row{.kernel = nothing, .call = operands.call(), .length = overhead_launches};
  time_once({.kernel = nothing, .call = operands.call()});
  keep_as_graph(row);
  if (!row.graph) return std::nullopt;
  std::vector<Duration> times(overhead_runs);
  for (Duration& time : times) {
    const Duration begin = monotonic_now();
    row.graph->launch();
    time = monotonic_now() - begin;
    device_.memory().wait();
  }
  return Duration{median(times).ns / overhead_launches};
}

}  // namespace shardscope
