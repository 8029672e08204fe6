// The device's own records as an instrument.
#pragma once

#include <memory>

#include "backend/profile/device_recording.h"
#include "backend/profile/instrument.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// Times replays while its recorder records; where it cannot, the trace says why, and the run goes
/// on. `schedule` must outlive it.
std::unique_ptr<Instrument> make_device_instrument(const Schedule& schedule,
                                                   std::unique_ptr<DeviceRecorder> recorder);

}  // namespace shardscope
