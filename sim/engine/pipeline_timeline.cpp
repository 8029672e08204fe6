#include "sim/engine/pipeline_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "sim/engine/event_engine.h"

namespace shardscope {
Duration chunk_time(const Action& action, const ChunkTime& chunk) {
  switch (action.kind) {
    case ActionKind::forward:
      return chunk.forward;
    case ActionKind::full_backward:
      return chunk.input_backward + chunk.weight_backward;
    case ActionKind::backward_input:
      return chunk.input_backward;
    case ActionKind::backward_weight:
      return chunk.weight_backward;
    default:
      return {};
  }
}

namespace {

std::size_t operations_in(const std::vector<PipelineProgram>& programs) {
  std::size_t count = 0;
  for (const PipelineProgram& program : programs)
    for (const PipelineInstruction& one : program)
      count += one.kind == InstructionKind::act ? 1 : one.transfers.size();
  return count;
}

/// Issues programs to lanes: one of a rank for its chunks, one for each of its directions.
class TimelinePlayer {
 public:
  TimelinePlayer(const std::vector<PipelineProgram>& programs, const PipelineTimes& times)
      : programs_(programs), times_(times), moments_(operations_in(programs)) {
    costs_.times.reserve(moments_.end.size());
  }

  std::vector<std::vector<PlayedAction>> play() {
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) note_costs(rank);
    EventEngine engine(costs_, 1, moments_, programs_.size());
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) issue(rank, engine);
    engine.finish();
    std::vector<std::vector<PlayedAction>> played;
    next_ = 0;
    for (std::size_t rank = 0; rank < programs_.size(); ++rank)
      played.push_back(played_actions(rank));
    return played;
  }

 private:
  struct Arrival {
    std::uint32_t event = 0;
    bool known = false;
  };

  void note_costs(std::size_t rank) {
    for (const PipelineInstruction& one : programs_[rank]) {
      if (one.kind == InstructionKind::act)
        costs_.times.push_back(
            chunk_time(one.action, times_.chunks[static_cast<std::size_t>(one.action.stage)]));
      for (const PipelineTransfer& transfer : one.transfers)
        costs_.times.push_back(times_.transfer(static_cast<int>(rank), transfer.peer));
    }
  }

  void issue(std::size_t rank, EventEngine& engine) {
    const std::size_t compute = engine.new_lane(rank);
    std::map<std::pair<int, ActionKind>, std::size_t> lanes;  // of transfers, by peer
    std::vector<std::vector<std::uint32_t>> ended(programs_[rank].size());
    const auto add = [&](std::size_t lane, LaneItem::Kind kind, std::uint32_t subject) {
      engine.issue(lane, {.kind = kind, .share = Share::alone, .subject = subject}, 0);
    };
    for (std::size_t i = 0; i < programs_[rank].size(); ++i) {
      const PipelineInstruction& one = programs_[rank][i];
      if (one.kind == InstructionKind::act)
        add(compute, LaneItem::Kind::operation, static_cast<std::uint32_t>(next_++));
      if (one.kind == InstructionKind::wait)
        for (const std::uint32_t event : ended[one.posted])
          add(compute, LaneItem::Kind::wait, event);
      const auto lane_of = [&](const PipelineTransfer& transfer) {
        const auto key = times_.one_channel ? std::pair(-1, ActionKind::forward)
                                            : std::pair(transfer.peer, transfer.action.kind);
        const auto [lane, is_new] = lanes.try_emplace(key, 0);
        if (is_new) lane->second = engine.new_lane(rank);
        return lane->second;
      };
      // What is posted together is come to together.
      for (const PipelineTransfer& transfer : one.transfers) {
        const std::size_t lane = lane_of(transfer);
        const std::uint32_t posted = engine.new_event();
        add(compute, LaneItem::Kind::record, posted);
        add(lane, LaneItem::Kind::wait, posted);
        add(lane, LaneItem::Kind::record, arrival(transfer.action, engine));
      }
      for (const PipelineTransfer& transfer : one.transfers) {
        const std::size_t lane = lane_of(transfer);
        add(lane, LaneItem::Kind::wait, arrival_of_peer(transfer.action, engine));
        add(lane, LaneItem::Kind::operation, static_cast<std::uint32_t>(next_++));
        ended[i].push_back(engine.new_event());
        add(lane, LaneItem::Kind::record, ended[i].back());
      }
    }
  }

  /// The event that a rank has come to its send or receive.
  std::uint32_t arrival(const Action& action, EventEngine& engine) {
    Arrival& at = arrivals_[action];
    if (!std::exchange(at.known, true)) at.event = engine.new_event();
    return at.event;
  }
  std::uint32_t arrival_of_peer(const Action& action, EventEngine& engine) {
    if (is_send(action.kind)) return arrival(receive_of(action), engine);
    const bool gradient = is_of_gradient(action.kind);
    return arrival({gradient ? ActionKind::send_backward : ActionKind::send_forward,
                    peer_stage(action), action.micro_batch},
                   engine);
  }

  std::vector<PlayedAction> played_actions(std::size_t rank) {
    std::vector<PlayedAction> played;
    const auto add = [&](const Action& action) {
      const Duration end = moments_.end[next_];
      if (end == OperationMoments::not_started) {
        throw Error({.where = "simulation",
                     .what = fmt::format("the ranks of a pipeline wait for each other: rank {} "
                                         "never ends",
                                         rank)});
      }
      played.push_back({.action = action, .start = moments_.start[next_], .end = end});
      ++next_;
    };
    for (const PipelineInstruction& one : programs_[rank]) {
      if (one.kind == InstructionKind::act) add(one.action);
      for (const PipelineTransfer& transfer : one.transfers) add(transfer.action);
    }
    return played;
  }

  const std::vector<PipelineProgram>& programs_;
  const PipelineTimes& times_;
  StepCosts costs_{.times = {}, .uses = {}, .clock = {}};
  OperationMoments moments_;
  std::map<Action, Arrival> arrivals_;
  std::size_t next_ = 0;  ///< subject
};

}  // namespace

std::vector<std::vector<PlayedAction>> pipeline_timeline(
    const std::vector<PipelineProgram>& programs, const PipelineTimes& times) {
  return TimelinePlayer(programs, times).play();
}

std::vector<Duration> pipeline_ends(const std::vector<PipelineProgram>& programs,
                                    const PipelineTimes& times) {
  std::vector<Duration> ends;
  for (const std::vector<PlayedAction>& rank : pipeline_timeline(programs, times)) {
    Duration last;
    for (const PlayedAction& one : rank) last = std::max(last, one.end);
    ends.push_back(last);
  }
  return ends;
}

}  // namespace shardscope
