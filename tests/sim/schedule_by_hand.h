// Small schedules written down operation by operation, with the time that each takes alone.
#pragma once

#include <string>
#include <vector>

#include "core/schedule/schedule.h"
#include "sim/engine/event_engine.h"

namespace shardscope::testing {

struct MachineByHand {
  HostRole host = HostRole::issues;
  Duration issue_overhead;
  SharingRules sharing;
  std::vector<StragglingSample> straggling;
  int straggling_ranks = 0;
};

class ScheduleByHand {
 public:
  struct Op {
    OperationKind kind = OperationKind::compute;
    Stream stream = Stream::compute;
    Duration time;
    std::vector<OperationId> after;
  };

  OperationId add(const Op& op);
  OperationId compute(Duration time, std::vector<OperationId> after = {});
  OperationId all_gather(Duration time, std::vector<OperationId> after = {});
  OperationId reduce_scatter(Duration time, std::vector<OperationId> after = {});

  const Schedule& schedule() const { return schedule_; }
  Schedule& schedule() { return schedule_; }
  /// Its operations issued in order, so many times one after the other: moments of the last one.
  OperationMoments play(const MachineByHand& machine, int repetitions = 1) const;

 private:
  Schedule schedule_;
  std::vector<Duration> times_;
};

/// "0-10 10-14 ...": start and end of every operation in us.
std::string text_of(const OperationMoments& times);

}  // namespace shardscope::testing
