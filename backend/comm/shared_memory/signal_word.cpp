#include "backend/comm/shared_memory/signal_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace shardscope {
namespace {

/// Long enough for a peer that is about to arrive on another core, short enough not to take the
/// core from its compute.
constexpr int spins = 64;

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The words lie in memory shared by processes, so that these are not the private futex calls.
void futex_wait(std::atomic<std::uint32_t>* word, std::uint32_t expected, const timespec& longest) {
  ::syscall(SYS_futex, word, FUTEX_WAIT, expected, &longest, nullptr, 0);
}
void futex_wake_all(std::atomic<std::uint32_t>* word) {
  ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

void SignalWord::raise(std::uint32_t value) {
  // Sequentially consistent on both sides: either we see the waiter, or it sees the value before it
  // sleeps.
  value_.store(value, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) != 0) futex_wake_all(&value_);
}

bool SignalWord::wait(std::uint32_t target, std::chrono::nanoseconds longest) {
  for (int i = 0; i < spins; ++i) {
    if (reached(target)) return true;
    pause_core();
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
  const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (longest - seconds).count()};
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t seen = value_.load(std::memory_order_seq_cst);
  if (static_cast<std::int32_t>(seen - target) < 0) futex_wait(&value_, seen, limit);
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
  return reached(target);
}

}  // namespace shardscope
