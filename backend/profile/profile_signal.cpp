#include "backend/profile/profile_signal.h"

namespace shardscope {
namespace {

volatile sig_atomic_t asked_to_profile = 0;

extern "C" void note_profile(int /*signal*/) { asked_to_profile = 1; }

}  // namespace

ProfileSignal::ProfileSignal() {
  asked_to_profile = 0;
  struct sigaction action {};
  action.sa_handler = note_profile;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, &old_);
}

ProfileSignal::~ProfileSignal() { sigaction(SIGUSR1, &old_, nullptr); }

bool ProfileSignal::take() {
  if (asked_to_profile == 0) return false;
  asked_to_profile = 0;
  return true;
}

}  // namespace shardscope
