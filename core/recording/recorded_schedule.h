// A recording as a schedule with its host program: what the real framework issued, allocated and
// waited for, in its order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/quantities.h"
#include "core/schedule/schedule.h"

namespace shardscope {

/// As torch.cuda.memory_stats() of the recorded process said at its end.
struct RecordedPeaks {
  Bytes allocated, active, reserved;
};

struct Recording {
  Schedule schedule;
  std::string torch;                   ///< "2.15.0+cu132"; "": torch was not seen
  std::string allocator;               ///< its settings as PYTORCH_ALLOC_CONF has them; "": none
  std::optional<RecordedPeaks> peaks;  ///< of its device; none: the process did not reach its end
  std::vector<std::string> unknown;    ///< functions that the device answered with 0
  /// Values that the script read and nobody computed: "aten.nll_loss_forward.default, read by
  /// aten._local_scalar_dense.default".
  std::vector<std::string> invented;
  std::int64_t kernels = 0;         ///< launches in all
  std::int64_t unseen_kernels = 0;  ///< of these, of no operator: compiled, or outside of any
  std::int64_t tuning_kernels = 0;  ///< beside these, while kernels were tuned: left out
  /// Questions of the script to the device's time: is an event over, how long was it.
  std::int64_t timed_answers = 0;
  bool is_whole = true;  ///< the process ended by itself
};

struct RecordedPlace {
  int world = 1, rank = 0;
};

/// Set-up is what comes before the first module's forward, a step ends with optimizer.step; where
/// there is none, all of it is one step. What comes after the last whole step is left out. Throws
/// Error where the file is no log, or holds no operation on the device.
Recording read_recording(const std::filesystem::path& events, const RecordedPlace& place);

}  // namespace shardscope
