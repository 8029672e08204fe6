#include "backend/calibrate/rank_group.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace shardscope {

double mean_over_ranks(Communicator& world, double mine) {
  double sum = mine;
  world.all_reduce(std::as_writable_bytes(std::span(&sum, 1)), Dtype::float64);
  return sum / world.size();
}

Duration mean_over_ranks(Communicator& world, Duration mine) {
  return Duration::from_seconds(mean_over_ranks(world, mine.seconds()));
}

Duration monotonic_now() {
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(
              std::chrono::steady_clock::now().time_since_epoch())
              .count()};
}

}  // namespace shardscope
