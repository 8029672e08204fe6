#include "tests/backend/cuda/stand_in_teacher.h"

#include <typeinfo>
#include <vector>

#include "backend/cuda/kernels/kernels.h"
#include "tests/backend/cuda/emulated_stream.h"
#include "tests/backend/cuda/launch_record.h"
#include "tests/backend/cuda/stand_in_device.h"

namespace shardscope::test {
namespace {

class Teacher {
 public:
  template <class Body>
  void launch(const Body&, const cuda::LaunchShape&) const {
    StandInDevice::get().teach(demangled(typeid(Body).name()),
                               [](const void* body, const cuda::LaunchShape& shape) {
                                 return [copy = *static_cast<const Body*>(body), shape] {
                                   EmulatedStream().launch(copy, shape);
                                 };
                               });
  }
  const StepState* step_state() const { return nullptr; }
};

}  // namespace

void teach(const Kernel& kernel) {
  alignas(256) static std::byte somewhere[256];
  const std::vector<void*> operands(16, somewhere);
  const std::vector<Slice> slices{Slice{.elements = 1}};
  Teacher teacher;
  cuda::run_kernel(kernel, {.operands = operands, .slices = slices, .state = {}}, teacher);
}

void teach_step_state() { Teacher().launch(cuda::SetStepState{}, {}); }

}  // namespace shardscope::test
