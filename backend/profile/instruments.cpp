#include "backend/profile/instruments.h"

#include "backend/profile/cupti_recorder.h"
#include "backend/profile/device_instrument.h"
#include "backend/profile/memory_instrument.h"
#include "backend/profile/nccl_profile.h"
#include "backend/profile/operation_counters.h"
#include "backend/profile/peer_waits.h"

namespace shardscope {

std::vector<std::unique_ptr<Instrument>> make_instruments(const InstrumentPlace& place) {
  std::vector<std::unique_ptr<Instrument>> instruments;
  Executor& executor = place.executor;
  const Schedule& schedule = executor.schedule();
  instruments.push_back(std::make_unique<MemoryInstrument>(executor, place.marks));
  if (!executor.device_memory().is_host()) {
    instruments.push_back(
        make_device_instrument(schedule, make_cupti_recorder({.records = place.records})));
    if (place.world.size() > 1) instruments.push_back(make_nccl_instrument());
    return instruments;
  }
  instruments.push_back(
      std::make_unique<OperationCounters>(schedule, threads_of(executor, place.kernel_threads)));
  if (place.world.size() > 1)
    instruments.push_back(std::make_unique<PeerWaits>(executor, place.world, place.clock_offset));
  return instruments;
}

}  // namespace shardscope
