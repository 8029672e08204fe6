// What NCCL told of its collectives, tied to the schedule's operations.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/schedule/collective_choice.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// What NCCL's handle of an event stands for: a number, so that it may come back at any time, also
/// after the event has ended. 0: nothing.
using NcclEventHandle = std::uint64_t;

/// One collective of a window, with what went over the network for it.
struct NcclCollective {
  OperationId operation;  ///< none: NCCL called it at another time
  std::int64_t step = 0;
  std::uint64_t sequence = 0;      ///< of this function in its communicator
  std::int64_t network_steps = 0;  ///< transfers, sent and received
  Bytes sent;
  Bytes received;
  bool operator==(const NcclCollective&) const = default;
};

/// Takes NCCL's events on whatever thread they come, and allocates nothing meanwhile; a mutex is
/// taken in windows only. The one of this process (nccl_events()) is behind the exported plugin.
class NcclEvents {
 public:
  /// How the library talks to us; 0: there is none, or it knows no plugins.
  enum class Interface : int { none = 0, version4 = 4, version5 = 5 };

  /// Takes memory for a schedule of so many operations, and for so many collectives of a window;
  /// before the first step, and once.
  void prepare(std::size_t operations, std::size_t capacity);

  /// The operation in whose hearing NCCL is called, and the step; from the thread that queues.
  void begin_step(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }
  void end_step() { begin_step(0); }
  void begin(OperationId operation) {
    operation_.store(operation.value, std::memory_order_relaxed);
  }
  void end() { begin(OperationId{}); }

  /// Only a window counts collectives and what goes over the network; how an operation was moved
  /// is noted always.
  void open_window();
  void close_window();

  /// After the window was closed. What NCCL's threads still tell of it no longer counts.
  std::vector<NcclCollective> collectives() const;
  /// Collectives of the window that found no room.
  std::int64_t dropped() const;
  /// How NCCL moved the operation whenever it first did; empty: not known.
  CollectiveChoice choice_of(OperationId operation) const;
  Interface interface() const { return interface_.load(std::memory_order_relaxed); }

  // What the plugin hears.
  void communicator_made(Interface interface, int* activation_mask);
  NcclEventHandle call() const;
  struct Call {
    std::uint64_t sequence = 0;
    const char* algorithm = nullptr;
    const char* protocol = nullptr;
    int channels = 0;
  };
  /// `parent` is call()'s, or 0.
  NcclEventHandle collective(NcclEventHandle parent, const Call& call);
  /// `parent` is collective()'s.
  NcclEventHandle proxy_operation(NcclEventHandle parent) const;
  /// `parent` is proxy_operation()'s.
  NcclEventHandle proxy_step(NcclEventHandle parent);
  void transferred(NcclEventHandle proxy_step, Bytes bytes, bool is_sent);

 private:
  /// Written once, by whom `state` lets.
  struct Choice {
    enum : int { unknown, being_written, known };
    std::atomic<int> state{unknown};
    std::array<char, 24> algorithm{}, protocol{};
    int channels = 0;
  };

  void note_choice(OperationId operation, const Call& call);
  /// Of an open window and under mutex_; null for an event of another window.
  NcclCollective* collective_of(NcclEventHandle handle);

  std::atomic<std::int64_t> step_{0};
  std::atomic<std::uint32_t> operation_{OperationId::none_value};
  std::atomic<Interface> interface_{Interface::none};
  std::atomic<std::uint32_t> window_{0};  ///< odd: open; changed under mutex_
  mutable std::mutex mutex_;
  std::vector<NcclCollective>
      collectives_;  ///< of the window; at most capacity_, taken in prepare()
  std::size_t capacity_ = 0;
  std::int64_t dropped_ = 0;
  std::unique_ptr<Choice[]> choices_;  ///< by operation
  std::size_t operations_ = 0;
};

/// This process's, which NCCL's threads may call as long as it lives.
NcclEvents& nccl_events();

}  // namespace shardscope
