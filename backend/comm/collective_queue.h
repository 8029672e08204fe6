// The communication thread of a process: tasks in the order in which they were handed over.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/quantities.h"

namespace shardscope {

/// Runs tasks one after another on its own thread, which is the CPU's stand-in for a communication
/// stream. One thread hands tasks over and waits for them. After the construction nothing is
/// allocated, unless a task fails.
class CollectiveQueue {
 public:
  /// A task's number, from 0.
  struct Ticket {
    std::uint64_t number = 0;
    auto operator<=>(const Ticket&) const = default;
  };
  /// When a task ran, on the steady clock.
  struct Times {
    Duration start;
    Duration end;
  };

  /// `capacity` tasks may be unfinished, or finished with their times still kept.
  explicit CollectiveQueue(std::size_t capacity);
  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;
  /// Runs what was handed over, and ends the thread.
  ~CollectiveQueue();

  /// Hands a task over: a callable of up to 64 bytes that can be copied as bytes (a lambda over
  /// pointers, references and numbers). Waits while `capacity` tasks are unfinished.
  template <class Task>
  Ticket submit(Task task) {
    static_assert(sizeof(Task) <= task_bytes);
    static_assert(alignof(Task) <= alignof(std::max_align_t));
    static_assert(std::is_trivially_copyable_v<Task> && std::is_trivially_destructible_v<Task>);
    std::unique_lock lock(mutex_);
    Record& record = next_free_record(lock);
    ::new (static_cast<void*>(record.task)) Task(task);
    record.run = [](void* stored) { (*std::launder(reinterpret_cast<Task*>(stored)))(); };
    return publish(lock);
  }

  /// Returns when the task has ended. If it, or one before it, failed, rethrows that first failure;
  /// tasks after a failed one are not run.
  void wait(Ticket ticket);
  bool done(Ticket ticket) const;
  /// Of one of the last `capacity` tasks, after it has ended.
  Times times(Ticket ticket) const;

 private:
  static constexpr std::size_t task_bytes = 64;
  struct Record {
    void (*run)(void*) = nullptr;
    alignas(std::max_align_t) std::byte task[task_bytes];
    Times times;
  };

  Record& record(std::uint64_t number) { return ring_[number % ring_.size()]; }
  Record& next_free_record(std::unique_lock<std::mutex>& lock);
  Ticket publish(std::unique_lock<std::mutex>& lock);
  void serve();

  mutable std::mutex mutex_;
  std::condition_variable handed_over_;
  std::condition_variable ended_;
  std::vector<Record> ring_;
  std::uint64_t submitted_ = 0;
  std::uint64_t finished_ = 0;
  bool stopping_ = false;
  std::exception_ptr failure_;
  std::uint64_t failed_task_ = 0;
  std::thread thread_;
};

}  // namespace shardscope
