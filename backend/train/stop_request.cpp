#include "backend/train/stop_request.h"

namespace shardscope {
namespace {

volatile sig_atomic_t asked_to_stop = 0;

extern "C" void note_stop(int /*signal*/) { asked_to_stop = 1; }

}  // namespace

StopRequest::StopRequest() {
  asked_to_stop = 0;
  struct sigaction action {};
  action.sa_handler = note_stop;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &old_interrupt_);
  sigaction(SIGTERM, &action, &old_terminate_);
}

StopRequest::~StopRequest() {
  sigaction(SIGINT, &old_interrupt_, nullptr);
  sigaction(SIGTERM, &old_terminate_, nullptr);
}

bool StopRequest::asked() const { return asked_to_stop != 0; }

}  // namespace shardscope
