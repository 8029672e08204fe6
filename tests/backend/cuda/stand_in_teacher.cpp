#include "tests/backend/cuda/stand_in_teacher.h"

#include <typeinfo>

#include "backend/cuda/kernels/every_call.h"
#include "backend/cuda/kernels/kernels.h"
#include "core/model/read_model.h"
#include "core/native/native_schedule.h"
#include "core/native/resolved_strategy.h"
#include "core/schedule/schedule.h"
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
  Teacher teacher;
  cuda::for_every_call(kernel,
                       [&](const KernelCall& call) { cuda::run_kernel(kernel, call, teacher); });
}

void teach_step_state() { Teacher().launch(cuda::SetStepState{}, {}); }

void teach_job(const Job& job, int rank, int ranks, const Device& device) {
  teach_step_state();
  const Workload workload{.batch = job.batch,
                          .length = job.seq,
                          .micro_batches = job.accumulate,
                          .optimizer = job.optimizer,
                          .clip = job.clip};
  const Schedule schedule =
      native_schedule(read_model(job.model), resolved(job.strategy, ranks, "test"), workload, rank,
                      device.target());
  for (const Kernel& kernel : schedule.kernels) teach(kernel);
}

}  // namespace shardscope::test
