#include "backend/profile/profile_signal.h"

#include <atomic>

namespace shardscope {
namespace {

// Set on whichever thread gets the signal, taken on the one that trains.
std::atomic<bool> asked_to_profile = false;
static_assert(std::atomic<bool>::is_always_lock_free, "else a handler may not touch it");

extern "C" void note_profile(int /*signal*/) { asked_to_profile = true; }

}  // namespace

ProfileSignal::ProfileSignal() {
  asked_to_profile = false;
  struct sigaction action {};
  action.sa_handler = note_profile;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, &old_);
}

ProfileSignal::~ProfileSignal() { sigaction(SIGUSR1, &old_, nullptr); }

bool ProfileSignal::take() { return asked_to_profile.exchange(false); }

}  // namespace shardscope
