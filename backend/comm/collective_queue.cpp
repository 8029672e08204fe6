#include "backend/comm/collective_queue.h"

#include <algorithm>
#include <chrono>

namespace shardscope {
namespace {

Duration now() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count()};
}

}  // namespace

CollectiveQueue::CollectiveQueue(std::size_t capacity) : ring_(std::max<std::size_t>(capacity, 1)) {
  thread_ = std::thread([this] { serve(); });
}

CollectiveQueue::~CollectiveQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  handed_over_.notify_one();
  thread_.join();
}

CollectiveQueue::Record& CollectiveQueue::next_free_record(std::unique_lock<std::mutex>& lock) {
  ended_.wait(lock, [this] { return submitted_ - finished_ < ring_.size(); });
  return record(submitted_);
}

CollectiveQueue::Ticket CollectiveQueue::publish(std::unique_lock<std::mutex>& lock) {
  const Ticket ticket{submitted_++};
  lock.unlock();
  handed_over_.notify_one();
  return ticket;
}

void CollectiveQueue::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return finished_ > ticket.number; });
  if (failure_ && failed_task_ <= ticket.number) std::rethrow_exception(failure_);
}

bool CollectiveQueue::done(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return finished_ > ticket.number;
}

CollectiveQueue::Times CollectiveQueue::times(Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return ring_[ticket.number % ring_.size()].times;
}

void CollectiveQueue::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    handed_over_.wait(lock, [this] { return stopping_ || finished_ < submitted_; });
    if (finished_ == submitted_) return;
    Record& task = record(finished_);
    const bool skip = failure_ != nullptr;
    lock.unlock();
    std::exception_ptr failure;
    task.times.start = now();
    try {
      if (!skip) task.run(task.task);
    } catch (...) {
      failure = std::current_exception();
    }
    task.times.end = now();
    lock.lock();
    if (failure) {
      failure_ = failure;
      failed_task_ = finished_;
    }
    ++finished_;
    ended_.notify_all();
  }
}

}  // namespace shardscope
