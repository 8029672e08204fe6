#include "core/native/issue_order.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace shardscope {
namespace {

class Issuer {
 public:
  Issuer(Schedule& schedule, HostRole host)
      : schedule_(schedule), host_(host), event_of_(schedule.operations.size(), none) {
    make_lanes();
    note_awaited();
  }

  void issue() {
    std::uint32_t next = 0;
    for (Step& step : schedule_.steps) {
      for (; next < step.operations.begin; ++next) issue(next);
      step.actions.begin = size();
      for (; next < step.operations.end; ++next) issue(next);
      if (host_ == HostRole::issues && next > 0)
        add(HostActionKind::host_sync, lane_of(next - 1), 0);
      step.actions.end = size();
    }
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  /// An operation that another lane waits for, before its event has a number.
  static constexpr std::uint32_t awaited = none - 1;

  const Operation& at(std::uint32_t op) const { return schedule_.operations[op]; }
  std::uint32_t size() const {
    return static_cast<std::uint32_t>(schedule_.program.actions.size());
  }
  std::uint8_t lane_of(std::uint32_t op) const {
    return lane_of_stream_[static_cast<std::size_t>(at(op).stream)];
  }
  void add(HostActionKind kind, std::uint8_t lane, std::uint32_t subject) {
    schedule_.program.actions.push_back({kind, lane, subject});
  }

  void make_lanes() {
    std::array<bool, stream_count> used{};
    for (const Operation& op : schedule_.operations)
      used[static_cast<std::size_t>(op.stream)] = true;
    std::vector<Lane>& lanes = schedule_.program.lanes;
    for (std::size_t i = 0; i < stream_count; ++i) {
      if (!used[i]) continue;
      const auto stream = static_cast<Stream>(i);
      lane_of_stream_[i] = static_cast<std::uint8_t>(lanes.size());
      lanes.push_back({.name = std::string(name_of(stream)), .stream = stream});
    }
  }

  /// What the host updates beside a device is queued as the device's work is, on a lane of its own.
  bool runs_on_host(std::uint32_t op) const {
    return host_ == HostRole::computes
               ? !is_collective(at(op).kind)
               : at(op).stream == Stream::host && at(op).kind == OperationKind::host;
  }

  /// What the host has run itself has ended before anything else is issued.
  bool waits(std::uint32_t op, std::uint32_t before) const {
    return !runs_on_host(before) && lane_of(op) != lane_of(before);
  }

  void note_awaited() {
    for (std::uint32_t op = 0; op < event_of_.size(); ++op) {
      for (const OperationId before : schedule_.after_of(at(op))) {
        if (before.value >= op)
          throw Error({.where = fmt::format("schedule, operation {}", op),
                       .what = fmt::format("{} is to run after operation {}, which is issued later",
                                           schedule_.name(at(op)), before.value)});
        if (waits(op, before.value)) event_of_[before.value] = awaited;
      }
    }
  }

  void issue(std::uint32_t op) {
    const std::uint8_t lane = lane_of(op);
    for (const OperationId before : schedule_.after_of(at(op)))
      if (waits(op, before.value)) add(HostActionKind::wait_event, lane, event_of_[before.value]);
    add(runs_on_host(op) ? HostActionKind::run : HostActionKind::launch, lane, op);
    if (event_of_[op] != awaited) return;
    event_of_[op] = schedule_.program.events++;
    add(HostActionKind::record_event, lane, event_of_[op]);
  }

  Schedule& schedule_;
  HostRole host_;
  std::array<std::uint8_t, stream_count> lane_of_stream_{};
  std::vector<std::uint32_t> event_of_;  ///< by operation
};

}  // namespace

void issue_in_order(Schedule& schedule, HostRole host) { Issuer(schedule, host).issue(); }

}  // namespace shardscope
