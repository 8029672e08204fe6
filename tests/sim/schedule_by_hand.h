// Small schedules written down operation by operation, with the time that each takes alone.
#pragma once

#include <string>
#include <vector>

#include "core/schedule.h"
#include "sim/engine.h"

namespace shardscope::testing {

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
  Timeline play(const EngineOptions& options) const;

 private:
  Schedule schedule_;
  std::vector<Duration> times_;
};

/// "0-10 10-14 ...": start and end of every operation in us.
std::string text_of(const Timeline& timeline);

}  // namespace shardscope::testing
