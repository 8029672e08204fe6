#include "backend/profile/instruments.h"

#include "backend/profile/operation_counters.h"

namespace shardscope {

std::vector<std::unique_ptr<Instrument>> make_instruments(Executor& executor, int kernel_threads) {
  std::vector<std::unique_ptr<Instrument>> instruments;
  if (executor.device_memory().is_host()) {
    instruments.push_back(std::make_unique<OperationCounters>(
        executor.schedule(), threads_of(executor, kernel_threads)));
  }
  return instruments;
}

}  // namespace shardscope
