#include "backend/train/stop_request.h"

#include <atomic>

namespace shardscope {
namespace {

// Set on whichever thread gets the signal, read on the one that trains.
std::atomic<bool> asked_to_stop = false;
static_assert(std::atomic<bool>::is_always_lock_free, "else a handler may not touch it");

extern "C" void note_stop(int /*signal*/) { asked_to_stop = true; }

}  // namespace

StopRequest::StopRequest() {
  asked_to_stop = false;
  struct sigaction action {};
  action.sa_handler = note_stop;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    sigaction(numbers[i], nullptr, &old_[i]);
    if (old_[i].sa_handler != SIG_IGN) sigaction(numbers[i], &action, nullptr);
  }
}

StopRequest::~StopRequest() {
  for (std::size_t i = 0; i < numbers.size(); ++i) sigaction(numbers[i], &old_[i], nullptr);
}

bool StopRequest::asked() const { return asked_to_stop; }

}  // namespace shardscope
