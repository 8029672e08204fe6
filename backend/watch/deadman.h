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
class Deadman {
 public:
  explicit Deadman(std::function<void()> end);
  ~Deadman();
  Deadman(const Deadman&) = delete;
  Deadman& operator=(const Deadman&) = delete;

  /// A call that is under way as long as this lives; one at a time.
  class Call {
   public:
    Call(Deadman& deadman, std::chrono::milliseconds limit);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    Deadman& deadman_;
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
