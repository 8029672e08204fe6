#include "backend/watch/call_timeout.h"

#include <utility>

namespace shardscope {

CallTimeout::CallTimeout(std::function<void()> end) : end_(std::move(end)) {
  thread_ = std::thread([this] { serve(); });
}

CallTimeout::~CallTimeout() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

/// Looks now and then, so that calls that come back cost a lock each and wake nobody.
void CallTimeout::serve() {
  constexpr std::chrono::milliseconds look_interval{250};
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, look_interval, [this] { return stopping_; })) {
    if (!end_of_call_ || Clock::now() < *end_of_call_) continue;
    lock.unlock();
    return end_();
  }
}

void CallTimeout::expect(std::optional<Clock::time_point> end_of_call) {
  const std::lock_guard lock(mutex_);
  end_of_call_ = end_of_call;
}

CallTimeout::Call::Call(CallTimeout& timeout, std::chrono::milliseconds limit)
    : call_timeout_(timeout) {
  call_timeout_.expect(Clock::now() + limit);
}
CallTimeout::Call::~Call() { call_timeout_.expect(std::nullopt); }

}  // namespace shardscope
