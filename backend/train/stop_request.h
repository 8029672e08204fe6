// Ctrl-C and SIGTERM as a question that the training loop asks between steps.
#pragma once

#include <signal.h>

namespace shardscope {

/// While this lives, SIGINT and SIGTERM set a flag instead of ending the process. One at a time.
class StopRequest {
 public:
  StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;
  ~StopRequest();

  bool asked() const;

 private:
  struct sigaction old_interrupt_ {};
  struct sigaction old_terminate_ {};
};

}  // namespace shardscope
