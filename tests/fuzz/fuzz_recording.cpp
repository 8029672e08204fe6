// Any bytes as the log of a recorded process: either an Error, or a schedule that can be played.
#include <cstddef>
#include <cstdint>

#include "core/base/error.h"
#include "core/recording/recorded_schedule.h"
#include "sim/hardware/builtin_profiles.h"
#include "sim/prediction/prediction.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const shardscope::HardwareProfile profile =
      shardscope::find_hardware_profile("h100_sxm", "fuzz");
  const shardscope::fuzz::MemoryFile file(data, size);
  try {
    shardscope::Recording recording =
        shardscope::read_recording(file.path(), {.world = 8, .rank = 1});
    predict(std::move(recording.schedule), {.strategy = "recorded", .runtime = "pytorch"}, profile);
  } catch (const shardscope::Error&) {
  }
  return 0;
}
