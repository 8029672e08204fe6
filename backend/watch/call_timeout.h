// Watches over the watchdog's own calls into a driver, which may never come back.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace shardscope {

/// A thread that calls `end`, once, when a call takes longer than it said it would.
class CallTimeout {
 public:
  explicit CallTimeout(std::function<void()> end);
  ~CallTimeout();
  CallTimeout(const CallTimeout&) = delete;
  CallTimeout& operator=(const CallTimeout&) = delete;

  /// A call that is under way as long as this lives; one at a time.
  class Call {
   public:
    Call(CallTimeout& timeout, std::chrono::milliseconds limit);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CallTimeout& call_timeout_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  void serve();
  void expect(std::optional<Clock::time_point> end_of_call);

  std::function<void()> end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Clock::time_point> end_of_call_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace shardscope
