// EventEngine: when the operations of a host program start and end on a device. The one simulation
// of streams, links, contention and straggling ranks; who drives it is the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/base/quantities.h"
#include "core/schedule/samples.h"
#include "sim/engine/sharing.h"
#include "sim/engine/step_program.h"
#include "sim/engine/straggling.h"
#include "traces/trace.h"

namespace shardscope {

/// How long the host takes, and how operations share the device.
struct DeviceClockOptions {
  Duration launch;    ///< of the host, before an operation is on its stream
  Duration dispatch;  ///< of the host, for an operator that issues nothing
  /// The same in autograd's backward.
  Duration backward_launch = launch;
  Duration backward_dispatch = dispatch;
  Duration hook{};  ///< of the host, at one end of a module's forward or backward
  SharingRules sharing;

  std::int64_t launch_ns(bool backward) const { return backward ? backward_launch.ns : launch.ns; }
  std::int64_t dispatch_ns(bool backward) const {
    return backward ? backward_dispatch.ns : dispatch.ns;
  }
  std::int64_t host_ns(const HostCounts& done) const {
    return done.launches * launch.ns + done.dispatches * dispatch.ns +
           done.backward_launches * (backward_launch.ns - launch.ns) +
           done.backward_dispatches * (backward_dispatch.ns - dispatch.ns) + done.hooks * hook.ns;
  }
};

/// The host's times, multiplied: of operators, and of hooks.
DeviceClockOptions with_host_times(DeviceClockOptions clock, double factor, double of_hooks);

/// What a step costs on a machine.
struct StepCosts {
  std::vector<Duration> times;  ///< by `LaneItem::subject` of operations, alone
  std::vector<LinkUse> uses;    ///< alike: the links that collectives keep busy; none: no matter
  DeviceClockOptions clock;
  /// Of ranks whose host computes (sim/engine/straggling.h); none: they are always in step.
  std::vector<StragglingSample> straggling = {};
  /// That straggle and take turns at being the last, by `LaneItem::turn`; below 2: none is.
  int straggling_ranks = 0;
  /// Of devices that share their host's cores, by how many compute at once, from one on: the factor
  /// on their kernels' times. None: each has cores of its own.
  std::vector<double> core_sharing = {};
};

/// Moments of operations, by `LaneItem::subject`.
struct OperationMoments {
  static constexpr Duration not_started{-1};
  explicit OperationMoments(std::size_t count)
      : issued(count, not_started), start(count, not_started), end(count, not_started) {}
  std::vector<Duration> issued;  ///< the host reached it
  std::vector<Duration> start;
  std::vector<Duration> end;
};

/// Lanes of operations that the host has issued, and the events that they record and wait for.
/// Lanes belong to a device, by default to the only one; devices share nothing but events and,
/// where their kernels run on the cores of one host, these (`StepCosts::core_sharing`).
///
/// An operation starts when the host has issued it, what is before it on its lane has ended, the
/// events that its lane waits for have happened, and no earlier collective holds the channel. While
/// operations share the device each advances at 1 / its slowdown; rates change at the exact moment
/// that one starts or ends, and ends are rounded up to whole nanoseconds, so that the same input
/// gives the same times on every machine. A collective begins for all ranks when the last of them
/// has come, so that it is longer by as much as that one straggles. Where kernels and collectives
/// need the same core (`SharingRules::compute_waits`), a kernel also waits for the collectives that
/// run, and a collective goes before a kernel that could start at the same moment.
///
/// The host's work comes in segments, each issued at one moment: a `LaneItem` says which segment it
/// is of and how much the host had done in it before. The engine looks at the device only when the
/// host asks.
class EventEngine {
 public:
  static constexpr std::int64_t never_ns = std::numeric_limits<std::int64_t>::max();

  /// Repetitions of a program, one after the other. All of it must outlive the engine.
  EventEngine(const StepProgram& program, const StepCosts& costs, int repetitions);
  /// A program that grows while it is played, of collectives in `groups` communicators of each
  /// device. `recorded` gets the moments of its operations.
  EventEngine(const StepCosts& costs, std::size_t groups, OperationMoments& recorded,
              std::size_t devices = 1);

  /// The host begins the next segment of its work at this moment.
  void issue_segment(std::int64_t host_ns);
  /// The same with one item in it: of a program that grows.
  void issue(std::size_t lane, LaneItem item, std::int64_t host_ns);
  /// A further lane, of that device; gives its number.
  std::size_t new_lane(std::size_t device);
  std::uint32_t new_event();
  /// An event of elsewhere, which happens at that moment.
  std::uint32_t new_event_at(std::int64_t ns);

  /// Lets happen what happens up to a moment, or until an event has happened: whether it has.
  void run_until(std::int64_t limit_ns);
  bool run_until_happened(std::size_t event);
  /// Lets everything happen that was issued. Throws Error where a program that does not grow is
  /// not at its end.
  void finish();

  bool has_happened(std::size_t event) const { return event_ns_[event] != never_ns; }
  std::int64_t event_ns(std::size_t event) const { return event_ns_[event]; }
  std::int64_t last_end_ns() const { return last_end_ns_; }

  /// What ranks have computed so far makes none of them late.
  void meet() { straggling_.meet(); }

  /// When the last operation of a repetition ended.
  std::int64_t end_ns(std::size_t repetition) const { return ends_[repetition].ns; }
  /// Of a repetition, from the end of the one before to its own.
  Accounting accounting(std::size_t repetition) const;

 private:
  enum class State : std::uint8_t { blocked, ready, awaits_core, awaits_ranks, runs, ended };
  static constexpr std::size_t no_event = ~std::size_t{0};
  /// What is busy, as bits of an index into a table of times.
  using BusyNs = std::array<std::int64_t, 8>;

  struct LaneState {
    const LaneItem* items = nullptr;
    std::uint32_t count = 0;
    std::uint32_t at = 0;
    std::uint32_t last_operation = ~std::uint32_t{0};
    std::uint32_t repetition = 0;
    State state = State::blocked;
    Share share = Share::alone;  // of the operation at hand
    std::uint16_t device = 0;
    bool waits_for_host = true;
    bool waits_for_turn = false;
    bool held = false;  // a kernel in the midst of which a collective has its core
    std::size_t waits_for = no_event;
    std::int64_t free_ns = 0;   // when all before `at` has ended
    std::int64_t start_ns = 0;  // of the operation at hand
    std::int64_t since_ns = 0;  // since when `left_ns` counts
    double left_ns = 0;         // at full speed
    double slowdown = 1;
  };
  struct Ended {
    std::int64_t ns = 0;
    BusyNs busy{};
  };
  /// Collectives that run one after the other.
  struct Channel {
    std::uint64_t turn = 0;
    std::int64_t free_ns = 0;
    std::uint32_t issued = 0;  // of a program that grows
  };

  /// What operations of one device share.
  struct DeviceState {
    Sharing sharing;
    Sharing::Load load;  // since the last moment at which anything started or ended
    std::vector<Channel> channels;
    bool changes = false;  // its load, at the moment at hand
    int copies = 0;
    int awaiting = 0;  // collectives whose last rank is on its way
    BusyNs busy_ns{};
  };

  EventEngine(const StepCosts& costs, std::size_t groups, std::size_t devices);
  DeviceState& device_of(const LaneState& lane) { return devices_[lane.device]; }
  void add_lane(std::span<const LaneItem> items);
  std::size_t segment_of(const LaneState& lane, const LaneItem& item) const {
    return lane.repetition * segments_ + item.segment;
  }
  std::int64_t issued_ns(const LaneState& lane, const LaneItem& item) const {
    return issued_from_[segment_of(lane, item)] + costs_.clock.host_ns(item.host);
  }
  std::int64_t ranks_there_ns(const LaneState& lane, const LaneItem& item) const;
  bool comes_last(const LaneItem& item) const;
  std::int64_t time_ns(const LaneItem& item) const { return costs_.times[item.subject].ns; }
  LinkUse use_of(const LaneItem& item) const;
  bool takes_turns(const LaneItem& item) const {
    return item.share == Share::collective && costs_.clock.sharing.collectives_serial;
  }
  Channel& channel_of(const LaneState& lane, const LaneItem& item) {
    return device_of(lane).channels[by_group_ ? item.group : 0];
  }
  std::uint64_t turn_of(const LaneState& lane, const LaneItem& item) const;

  void settle();
  void record(std::size_t event, std::int64_t ns);
  void pass(std::size_t index);
  void get_ready(std::size_t index, const LaneItem& item);
  bool core_is_taken(const LaneState& lane);
  bool share_cores();
  void start(std::size_t index);
  void start_ready();
  void give_core(const DeviceState& device);
  void hold_kernels(DeviceState& device);
  void run(std::size_t index);
  void set_pace(std::size_t index);
  void change_pace(std::size_t index);
  void end(std::size_t index);
  void note_times(Share share, const LaneItem& item, Duration start, Duration end);
  void go_to(std::int64_t next_ns);
  void run_ahead(std::size_t index, std::int64_t bound_ns);
  bool advance(std::int64_t limit_ns);
  void happen(std::int64_t next_ns);

  const StepCosts& costs_;
  OperationMoments* recorded_ = nullptr;
  bool grows_ = false;
  bool straggles_ = false;
  bool notes_times_ = false;  // of operations, for the caller or for how ranks straggle
  std::size_t repetitions_ = 1;
  std::size_t segments_ = 0;  // of a repetition; 0: the program grows
  std::size_t events_ = 0;    // of a repetition
  std::size_t collectives_ = 0;
  std::span<const std::uint32_t> collectives_of_group_;
  Straggling straggling_;
  std::vector<Duration> slowed_times_;  // `StepCosts::times` of kernels beside a collective
  bool by_group_;
  std::vector<DeviceState> devices_;
  std::vector<LaneState> lanes_;
  std::vector<std::vector<LaneItem>> grown_;  // by lane, of a program that grows
  std::vector<std::int64_t> next_ns_;         // by lane: end of what runs, start of what is ready
  std::vector<std::int64_t> event_ns_;        // by repetition, event
  std::vector<std::int64_t> issued_from_;     // by repetition, segment of the host's work
  std::vector<std::int64_t> straggle_ns_;     // alike: how late the last rank comes; or none
  std::vector<Ended> ends_;                   // by repetition
  double core_factor_ = 1;  // on the times of kernels, by how many devices compute
  std::int64_t now_ns_ = 0;
  std::int64_t last_end_ns_ = 0;
  bool settled_ = true;  // no lane has got anything from the host that it has not looked at
};

}  // namespace shardscope
