#include "backend/calibrate/kernel_timer.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "backend/calibrate/kernel_operands.h"
#include "backend/calibrate/rank_group.h"

namespace shardscope {
namespace {

constexpr std::int64_t least_cache_bytes = 32 << 20;
constexpr std::int64_t most_cache_bytes = 128 << 20;

/// Twice the last-level cache, as far as the system knows it.
std::size_t more_than_the_caches() {
  const std::int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return static_cast<std::size_t>(2 * std::clamp(cache, least_cache_bytes, most_cache_bytes));
}

bool starts_cold(KernelKind kind) {
  return kind == KernelKind::adamw || kind == KernelKind::sgd || kind == KernelKind::sum_of_squares;
}

}  // namespace

KernelTimer::KernelTimer(Communicator& world, Device& device)
    : world_(world), device_(device), other_data_(more_than_the_caches()) {}

void KernelTimer::empty_caches() {
  constexpr std::size_t line = 64;
  for (std::size_t i = 0; i < other_data_.size(); i += line)
    other_data_[i] = static_cast<std::byte>(std::to_integer<int>(other_data_[i]) + 1);
}

KernelSample KernelTimer::time(const Kernel& kernel, Duration budget) {
  device_.prepare(kernel);
  const KernelOperands operands(kernel, device_);
  const auto time_once = [&] {
    if (starts_cold(kernel.kind)) empty_caches();
    const Duration start = monotonic_now();
    device_.run(kernel, operands.call());
    return monotonic_now() - start;
  };
  world_.barrier();
  const Duration begin = monotonic_now();
  time_once();
  const Duration warm = mean_over_ranks(world_, monotonic_now() - begin);
  const std::int64_t fits = budget.ns / std::max<std::int64_t>(warm.ns, 1);
  std::vector<Duration> times(static_cast<std::size_t>(std::clamp<std::int64_t>(fits, 3, 25)));
  for (Duration& time : times) time = time_once();
  return {kernel, std::max(mean_over_ranks(world_, median(times)), Duration{1})};
}

}  // namespace shardscope
