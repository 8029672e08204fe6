#include "tests/backend/cuda/launch_record.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "backend/cuda/kernels/kernels.h"

namespace shardscope::test {

std::string demangled(const char* name) {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, nullptr), &std::free);
  return text ? text.get() : name;
}

std::vector<Launch> launches_of(const Schedule& schedule, const Operation& operation) {
  // Never read: a launch that is only kept takes addresses apart and puts them together again.
  alignas(256) static std::byte somewhere[256];
  std::vector<void*> operands;
  for (const Operand& operand : schedule.operands_of(operation))
    operands.push_back(operand.buffer ? somewhere : nullptr);
  LaunchRecord record;
  cuda::run_kernel(schedule.kernels[operation.detail],
                   {.operands = operands, .slices = schedule.slices_of(operation), .state = {}},
                   record);
  return record.launches();
}

}  // namespace shardscope::test
