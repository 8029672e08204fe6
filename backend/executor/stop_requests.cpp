#include "backend/executor/stop_requests.h"

#include <cstdint>

namespace shardscope {
namespace {

constexpr int field_bits = 21;
constexpr std::int64_t field = std::int64_t{1} << field_bits;

}  // namespace

double to_sum(const StopRequests& requests) {
  const std::int64_t stop = requests.stop ? 1 : 0;
  const std::int64_t profile = requests.profile ? 1 : 0;
  return static_cast<double>(stop + field * profile + field * field * requests.profile_steps);
}

StopRequests requests_of_sum(double sum) {
  const auto all = static_cast<std::int64_t>(sum);
  return {.stop = all % field != 0,
          .profile = all / field % field != 0,
          .profile_steps = static_cast<int>(all / field / field)};
}

}  // namespace shardscope
