#include "sim/engine/pipeline_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/error.h"

namespace shardscope {

/// What each lane does in turn, and the order in which all of it can be gone through.
class PipelineOrder::Lanes {
 public:
  explicit Lanes(const std::vector<PipelineProgram>& programs) : lanes_(2 * programs.size()) {
    for (std::size_t rank = 0; rank < programs.size(); ++rank) add(programs[rank], rank);
  }

  std::uint32_t events() const { return events_; }

  /// Goes through the lanes, each as far as it gets before it waits.
  std::vector<Step> in_order() {
    std::vector<Step> order;
    std::vector<std::size_t> next(lanes_.size(), 0);
    std::vector<bool> recorded(events_, false);
    std::vector<std::vector<std::size_t>> waiting(events_);
    std::vector<std::size_t> ready;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) ready.push_back(lane);
    while (!ready.empty()) {
      const std::size_t lane = ready.back();
      ready.pop_back();
      for (; next[lane] < lanes_[lane].size(); ++next[lane]) {
        const Step& step = lanes_[lane][next[lane]];
        if (step.kind == StepKind::wait && !recorded[step.event]) {
          waiting[step.event].push_back(lane);
          break;
        }
        order.push_back(step);
        if (step.kind != StepKind::record && step.kind != StepKind::transfer) continue;
        recorded[step.event] = true;
        for (const std::size_t other : std::exchange(waiting[step.event], {}))
          ready.push_back(other);
      }
    }
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      if (next[lane] < lanes_[lane].size())
        throw Error({.where = "simulation",
                     .what = fmt::format("the ranks of a pipeline wait for each other: rank {} "
                                         "never ends",
                                         lane / 2)});
    return order;
  }

 private:
  void add(const PipelineProgram& program, std::size_t rank) {
    const auto compute = static_cast<std::uint16_t>(2 * rank);
    const auto channel = static_cast<std::uint16_t>(compute + 1);
    const auto step = [&](std::uint16_t lane, StepKind kind, std::uint32_t event) {
      lanes_[lane].push_back({.event = event, .lane = lane, .kind = kind});
    };
    std::vector<std::vector<std::uint32_t>> ended(program.size());
    for (std::size_t i = 0; i < program.size(); ++i) {
      const PipelineInstruction& one = program[i];
      if (one.kind == InstructionKind::act)
        lanes_[compute].push_back({.lane = compute,
                                   .stage = static_cast<std::uint16_t>(one.action.stage),
                                   .action = one.action.kind});
      if (one.kind == InstructionKind::wait)
        for (const std::uint32_t event : ended[one.posted]) step(compute, StepKind::wait, event);
      // What is posted together is come to together.
      if (!one.transfers.empty()) {
        const std::uint32_t posted = events_++;
        step(compute, StepKind::record, posted);
        step(channel, StepKind::wait, posted);
      }
      for (const PipelineTransfer& transfer : one.transfers)
        step(channel, StepKind::record, arrival(transfer.action));
      for (const PipelineTransfer& transfer : one.transfers) {
        step(channel, StepKind::wait, arrival_of_peer(transfer.action));
        step(channel, StepKind::transfer, events_);
        ended[i].push_back(events_++);
      }
    }
  }

  /// The event that a rank has come to its send or receive.
  std::uint32_t arrival(const Action& action) {
    const auto [at, is_new] = arrivals_.try_emplace(action, events_);
    if (is_new) ++events_;
    return at->second;
  }
  std::uint32_t arrival_of_peer(const Action& action) {
    if (is_send(action.kind)) return arrival(receive_of(action));
    const bool gradient = is_of_gradient(action.kind);
    return arrival({gradient ? ActionKind::send_backward : ActionKind::send_forward,
                    peer_stage(action), action.micro_batch});
  }

  std::vector<std::vector<Step>> lanes_;
  std::map<Action, std::uint32_t> arrivals_;
  std::uint32_t events_ = 0;
};

PipelineOrder::PipelineOrder(const std::vector<PipelineProgram>& programs)
    : ranks_(programs.size()) {
  Lanes lanes(programs);
  steps_ = lanes.in_order();
  events_ = lanes.events();
}

std::vector<Duration> PipelineOrder::ends(const std::vector<ChunkTime>& chunks,
                                          Duration transfer) const {
  std::vector<Duration> lanes(2 * ranks_), events(events_);
  for (const Step& step : steps_) {
    Duration& now = lanes[step.lane];
    switch (step.kind) {
      case StepKind::act:
        now += chunk_time({.kind = step.action}, chunks[step.stage]);
        break;
      case StepKind::transfer:
        events[step.event] = now += transfer;
        break;
      case StepKind::record:
        events[step.event] = now;
        break;
      case StepKind::wait:
        now = std::max(now, events[step.event]);
        break;
    }
  }
  std::vector<Duration> ends;
  for (std::size_t rank = 0; rank < ranks_; ++rank)
    ends.push_back(std::max(lanes[2 * rank], lanes[2 * rank + 1]));
  return ends;
}

}  // namespace shardscope
