// A stream that keeps what it is asked to launch and runs nothing.
#pragma once

#include <cstdint>
#include <string>
#include <typeinfo>
#include <vector>

#include "backend/cuda/kernels/simt.h"
#include "core/schedule/schedule.h"

namespace shardscope::test {

/// One launch, as the device would get it.
struct Launch {
  std::string body;  ///< "shardscope::cuda::Add<float>", as the demangler writes it
  cuda::LaunchShape shape;
  int most_threads = 0;
  std::size_t argument_bytes = 0;
};

std::string demangled(const char* name);

class LaunchRecord {
 public:
  template <class Body>
  void launch(const Body&, const cuda::LaunchShape& shape) {
    launches_.push_back(
        {demangled(typeid(Body).name()), shape, cuda::most_threads_of<Body>(), sizeof(Body)});
  }
  const StepState* step_state() const { return nullptr; }
  const std::vector<Launch>& launches() const { return launches_; }

 private:
  std::vector<Launch> launches_;
};

/// What the device would launch for an operation that runs a kernel.
std::vector<Launch> launches_of(const Schedule& schedule, const Operation& operation);

}  // namespace shardscope::test
