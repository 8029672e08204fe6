// Time of collectives split into waiting for peers and moving bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/comm/communicator.h"
#include "backend/executor/executor.h"
#include "backend/profile/instrument.h"
#include "core/base/ranks.h"

namespace shardscope {

/// Who came last to a collective, and when.
struct LastArrival {
  std::int64_t time_ns = 0;
  int rank = 0;
  bool operator==(const LastArrival&) const = default;
};
/// `by_rank`: when each rank of the job came. Of several that come at once, the first of `group`.
LastArrival last_arrival(const Ranks& group, std::span<const std::int64_t> by_rank);

/// Measures of every collective "waiting_ns", from its begin here until the last rank of its group
/// has begun it, and "last_rank", that rank. What is left of the span moves bytes. This is the
/// definition of Scalasca's "Wait at NxN" and, with NCCL, of the time until all kernels run; it
/// holds for every transport whose calls block. A step pays one look at the clock a collective: the
/// ranks exchange their times when the window closes. As exact as the ranks' clocks are together.
class PeerWaits final : public Instrument, private Probe {
 public:
  /// Collective over `world`, that of `executor`. `clock_offset` is called when a window
  /// closes, by all ranks: what to add to monotonic_ns() for the time that all go by.
  PeerWaits(Executor& executor, Communicator& world, std::function<std::int64_t()> clock_offset);

  Probe* probe() override { return this; }
  void start() override;
  void stop() override;
  void add_to(Trace& trace, const MeasuredWindow& window) override;

 private:
  /// When collectives were called, by place in `collectives_`.
  struct Arrivals {
    std::int64_t step = 0;
    std::vector<std::int64_t> own_ns;
    std::vector<LastArrival> last;  ///< on this rank's clock
  };

  void begin_step(std::int64_t step) override { steps_.back().step = step; }
  void end_step() override { lay_out_step(); }
  void begin(OperationId operation) override;

  void lay_out_step();
  void exchange(Arrivals& step, std::int64_t offset_ns);

  Executor& executor_;
  Communicator& world_;
  std::function<std::int64_t()> clock_offset_;
  std::vector<OperationId> collectives_;
  std::vector<std::size_t> place_of_;  ///< in `collectives_`, by operation
  std::vector<Arrivals> steps_;        ///< of the window; the last one has not been run
};

}  // namespace shardscope
