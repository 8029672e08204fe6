#include "backend/watch/deadman.h"

#include <utility>

namespace shardscope {

Deadman::Deadman(std::function<void()> end) : end_(std::move(end)) {
  thread_ = std::thread([this] { serve(); });
}

Deadman::~Deadman() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

/// Looks now and then, so that calls that come back cost a lock each and wake nobody.
void Deadman::serve() {
  constexpr std::chrono::milliseconds look_interval{250};
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, look_interval, [this] { return stopping_; })) {
    if (!end_of_call_ || Clock::now() < *end_of_call_) continue;
    lock.unlock();
    return end_();
  }
}

void Deadman::expect(std::optional<Clock::time_point> end_of_call) {
  const std::lock_guard lock(mutex_);
  end_of_call_ = end_of_call;
}

Deadman::Call::Call(Deadman& deadman, std::chrono::milliseconds limit) : deadman_(deadman) {
  deadman_.expect(Clock::now() + limit);
}
Deadman::Call::~Call() { deadman_.expect(std::nullopt); }

}  // namespace shardscope
