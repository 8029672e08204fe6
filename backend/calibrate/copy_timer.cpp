#include "backend/calibrate/copy_timer.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "backend/calibrate/rank_group.h"
#include "core/base/median.h"

namespace shardscope {
namespace {

constexpr std::size_t small_bytes = 4 << 10;
constexpr int small_runs = 51;
constexpr int large_runs = 5;

Duration median_of(int runs, const std::function<void()>& copy) {
  copy();
  std::vector<Duration> times;
  for (int i = 0; i < runs; ++i) {
    const Duration begin = monotonic_now();
    copy();
    times.push_back(monotonic_now() - begin);
  }
  return median(times);
}

CopyFigures figures_of(Bytes large, const std::function<void(std::size_t bytes)>& copy) {
  const Duration latency = median_of(small_runs, [&] { copy(small_bytes); });
  const Duration time = median_of(large_runs, [&] { copy(static_cast<std::size_t>(large.count)); });
  return {.bandwidth = {static_cast<double>(large.count) / std::max(time, Duration{1}).seconds()},
          .latency = latency};
}

}  // namespace

HostCopies time_host_copies(DeviceMemory& memory, Bytes large) {
  const std::unique_ptr<Arena> arena = memory.allocate(large);
  std::vector<std::byte> host(static_cast<std::size_t>(large.count));
  return {.to_device = figures_of(large,
                                  [&](std::size_t bytes) {
                                    memory.copy_in(arena->data(), {host.data(), bytes});
                                    memory.wait();
                                  }),
          .to_host = figures_of(large, [&](std::size_t bytes) {
            memory.copy_out({host.data(), bytes}, arena->data());
          })};
}

}  // namespace shardscope
