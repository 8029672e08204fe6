// Ctrl-C, SIGTERM and a closed terminal as a question that the training loop asks between steps.
#pragma once

#include <signal.h>

#include <array>
#include <cstddef>

namespace shardscope {

/// While this lives, SIGINT, SIGTERM and SIGHUP set a flag instead of ending the process; one that
/// the process was started to ignore stays ignored. One at a time.
class StopRequest {
 public:
  StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;
  ~StopRequest();

  bool asked() const;

 private:
  static constexpr std::array numbers{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, numbers.size()> old_{};
};

}  // namespace shardscope
