#include "backend/calibrate/kernel_timer.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/calibrate/kernel_operands.h"
#include "backend/calibrate/rank_group.h"

namespace shardscope {
namespace {

constexpr std::int64_t least_cache_bytes = 32 << 20;
constexpr std::int64_t most_cache_bytes = 128 << 20;
/// Launches between two marks of a device that runs ahead: a mark costs about as much as a small
/// kernel.
constexpr int most_in_a_row = 10;
constexpr int overhead_launches = 1000;

/// Twice the last-level cache, as far as the system knows it; a GPU's is smaller than the most.
Bytes more_than_the_caches(bool is_host) {
  const std::int64_t cache = is_host ? sysconf(_SC_LEVEL3_CACHE_SIZE) : most_cache_bytes;
  return Bytes{2 * std::clamp(cache, least_cache_bytes, most_cache_bytes)};
}

bool starts_cold(KernelKind kind) {
  return kind == KernelKind::adamw || kind == KernelKind::sgd || kind == KernelKind::sum_of_squares;
}

}  // namespace

KernelTimer::KernelTimer(Communicator& world, Device& device)
    : world_(world),
      device_(device),
      timeline_(device.timeline(2)),
      other_data_(device.memory().allocate(more_than_the_caches(device.memory().is_host()))) {}

void KernelTimer::empty_caches() {
  const auto half = static_cast<std::size_t>(other_data_->size().count / 2);
  device_.memory().copy(other_data_->data(), {other_data_->data() + half, half});
}

Duration KernelTimer::time_once(const Kernel& kernel, const KernelCall& call, int in_a_row) {
  if (starts_cold(kernel.kind)) empty_caches();
  timeline_->mark(0);
  for (int i = 0; i < in_a_row; ++i) device_.run(kernel, call);
  timeline_->mark(1);
  device_.memory().wait();
  return {timeline_->between(0, 1).ns / in_a_row};
}

KernelSample KernelTimer::time(const Kernel& kernel, Duration budget) {
  device_.prepare(kernel);
  const KernelOperands operands(kernel, device_);
  const bool runs_ahead = !device_.memory().is_host() && !starts_cold(kernel.kind);
  world_.barrier();
  const Duration warm = mean_over_ranks(world_, time_once(kernel, operands.call(), 1));
  const std::int64_t all = budget.ns / std::max<std::int64_t>(warm.ns, 1);
  const int in_a_row =
      runs_ahead ? static_cast<int>(std::clamp<std::int64_t>(all / 3, 1, most_in_a_row)) : 1;
  const std::int64_t fits = all / in_a_row;
  std::vector<Duration> times(static_cast<std::size_t>(std::clamp<std::int64_t>(fits, 3, 25)));
  for (Duration& time : times) time = time_once(kernel, operands.call(), in_a_row);
  return {kernel, std::max(mean_over_ranks(world_, median(times)), Duration{1})};
}

Duration KernelTimer::launch_overhead() {
  const Kernel nothing{.kind = KernelKind::fill_zero, .elements = 16};
  if (device_.memory().is_host()) return time(nothing, 1_ms).time;
  device_.prepare(nothing);
  const KernelOperands operands(nothing, device_);
  time_once(nothing, operands.call(), most_in_a_row);
  const Duration begin = monotonic_now();
  for (int i = 0; i < overhead_launches; ++i) device_.run(nothing, operands.call());
  const Duration all = monotonic_now() - begin;
  device_.memory().wait();
  return {all.ns / overhead_launches};
}

}  // namespace shardscope
