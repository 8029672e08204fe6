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
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    sigaction(numbers[i], nullptr, &old_[i]);
    if (old_[i].sa_handler != SIG_IGN) sigaction(numbers[i], &action, nullptr);
  }
}

StopRequest::~StopRequest() {
  for (std::size_t i = 0; i < numbers.size(); ++i) sigaction(numbers[i], &old_[i], nullptr);
}

bool StopRequest::asked() const { return asked_to_stop != 0; }

}  // namespace shardscope
