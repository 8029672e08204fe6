// The event engine beside its rules written down a second time (tests/sim/naive_device.h), on
// random host programs: equal to the nanosecond.
#include <gtest/gtest.h>

#include <random>

#include "sim/engine/timed_device.h"
#include "tests/sim/naive_device.h"
#include "tests/sim/program_by_hand.h"

namespace shardscope::testing {
namespace {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::uint32_t below(std::size_t end) { return static_cast<std::uint32_t>(engine_() / 256 % end); }

 private:
  std::minstd_rand engine_;  // the same numbers with every library
};

constexpr int operation_count = 60;
constexpr std::array<DeviceStream, 4> streams{default_stream, pool_stream(0, 0), pool_stream(1, 0),
                                              pool_stream(2, 0)};

Schedule random_operations(Random& random) {
  ProgramByHand program;
  program.begin_step("steady");
  constexpr std::array kinds{OperationKind::compute, OperationKind::compute,
                             OperationKind::all_gather, OperationKind::reduce_scatter,
                             OperationKind::copy};
  for (int i = 0; i < operation_count; ++i) {
    const OperationKind kind = kinds[random.below(kinds.size())];
    if (is_collective(kind))
      program.launch_in(0, 0, kind, random.below(2));
    else
      program.launch(0, 0, kind);
  }
  return program.finish();
}

StepCosts random_costs(const Schedule& schedule, Random& random) {
  StepCosts costs{.times = {}, .uses = {}, .clock = {}};
  for (const Operation& op : schedule.operations) {
    costs.times.push_back(Duration{random.below(8) == 0 ? 0 : 100 + random.below(9'000)});
    const LinkUse use{.within = 0.3 * random.below(4), .across = 0.3 * random.below(4)};
    costs.uses.push_back(is_collective(op.kind) ? use : LinkUse{});
  }
  costs.clock = {.launch = Duration{random.below(3'000)},
                 .dispatch = Duration{random.below(1'000)},
                 .hook = Duration{random.below(2'000)},
                 .sharing = {.collectives_serial = random.below(2) == 0,
                             .communicators_apart = random.below(2) == 0,
                             .compute_slowdown = 1 + 0.1 * random.below(10),
                             .collective_slowdown = 1 + 0.1 * random.below(10),
                             .compute_waits = random.below(2) == 0}};
  return costs;
}

/// What a host does between launches, the same to both devices.
template <class Device>
std::vector<std::int64_t> played(Device& device, Random random) {
  std::vector<DeviceEvent> events;
  std::vector<std::int64_t> seen;
  for (std::uint32_t op = 0; op < operation_count; ++op) {
    device.launch(streams[random.below(streams.size())], OperationId{op});
    const DeviceStream stream = streams[random.below(streams.size())];
    switch (random.below(8)) {
      case 0:
      case 1:
        events.push_back(device.record(stream));
        break;
      case 2:
      case 3:
        if (!events.empty()) device.stream_waits(stream, events[random.below(events.size())]);
        break;
      case 4:
        if (!events.empty()) seen.push_back(device.done(events[random.below(events.size())]));
        break;
      case 5:
        if (!events.empty()) device.wait(events[random.below(events.size())]);
        break;
      case 6:
        device.dispatch(1);
        device.hook();
        break;
      default:
        if (random.below(4) == 0) device.wait(stream);
    }
    seen.push_back(device.host_time().ns);
  }
  device.finish();
  seen.push_back(device.last_end().ns);
  return seen;
}

class EngineOracle : public ::testing::TestWithParam<unsigned> {};

TEST_P(EngineOracle, SaysTheSame) {
  Random random(GetParam());
  const Schedule schedule = random_operations(random);
  const StepCosts costs = random_costs(schedule, random);
  TimedDevice device(schedule, costs);
  NaiveDevice oracle(schedule, costs.times, costs.clock);
  oracle.share_links(costs.uses);
  EXPECT_EQ(played(device, random), played(oracle, random));
  for (std::uint32_t op = 0; op < operation_count; ++op) {
    EXPECT_EQ(device.times().start[op].ns, oracle.starts()[op].ns) << op;
    EXPECT_EQ(device.times().end[op].ns, oracle.ends()[op].ns) << op;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, EngineOracle, ::testing::Range(1u, 200u));

}  // namespace
}  // namespace shardscope::testing
