// SIGUSR1 as a question that the training loop asks between steps.
#pragma once

#include <signal.h>

namespace shardscope {

/// While this lives, SIGUSR1 sets a flag; what the signal did before comes back at the end. One at
/// a time.
class ProfileSignal {
 public:
  ProfileSignal();
  ProfileSignal(const ProfileSignal&) = delete;
  ProfileSignal& operator=(const ProfileSignal&) = delete;
  ~ProfileSignal();

  /// Did it come since this was asked last?
  bool take();

 private:
  struct sigaction old_ {};
};

}  // namespace shardscope
